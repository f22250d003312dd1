//! Settings of the daemon. `config/pumpd.toml` is the commented default and the base layer.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde::Deserialize;
use tidegate_launch::Settings;
use tidegate_service::{Bound, LogConfig};
use tidegate_store::{LOAD_HINTS_MAX, MOVE_TIMERS_MAX, SWEEP_CHUNKS_MAX, StoreConfig};

/// The built-in defaults: every key, with what it means.
pub const DEFAULTS: &str = include_str!("../../../config/pumpd.toml");

const HOUR: Duration = Duration::from_secs(3600);

/// The least and the largest value of every number and duration.
const BOUNDS: [(&str, Bound); 8] = [
    (
        "connect_patience",
        Bound::Duration(Duration::ZERO, Duration::from_secs(24 * 3600)),
    ),
    (
        "pump.lease",
        Bound::Duration(Duration::from_millis(100), HOUR),
    ),
    (
        "pump.sleep_max",
        Bound::Duration(Duration::from_millis(10), HOUR),
    ),
    (
        "pump.retry_pause",
        Bound::Duration(Duration::from_millis(10), Duration::from_secs(60)),
    ),
    ("pump.concurrency", Bound::Number(1, 1024)),
    // A call that moves serves two kinds of queues.
    ("pump.move_limit", Bound::Number(2, MOVE_TIMERS_MAX as i64)),
    ("pump.load_limit", Bound::Number(1, LOAD_HINTS_MAX as i64)),
    (
        "pump.sweep_limit",
        Bound::Number(1, SWEEP_CHUNKS_MAX as i64),
    ),
];

/// All settings of `tidegate-pumpd`.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Config {
    /// Where metrics are served.
    pub admin_listen: SocketAddr,
    /// How long to wait for Redis at the start.
    #[serde(with = "humantime_serde")]
    pub connect_patience: Duration,
    /// How much is logged, and how.
    pub log: LogConfig,
    /// Where the id of the process is written; empty = nowhere.
    pub pid_file: PathBuf,
    /// The Redis deployments, by name.
    pub pool: BTreeMap<String, StoreConfig>,
    /// How they are pumped.
    pub pump: PumpConfig,
}

impl Settings for Config {
    const PROGRAM: &'static str = "tidegate-pumpd";
    const DEFAULTS: &'static str = DEFAULTS;
    const OPTIONAL: &'static str = "";
    const BOUNDS: &'static [(&'static str, Bound)] = &BOUNDS;
    const DEPLOYMENTS: &'static [&'static str] = &[];
    const RELOADABLE: &'static [&'static str] = &["log.level"];
    const FOREIGN_TABLES: &'static [&'static str] = &[
        "accounts",
        "admin_store",
        "connections",
        "durability",
        "job",
        "metrics",
        "requests",
        "waiters",
    ];
    const FOREIGN_KEYS: &'static [&'static str] = &[
        "allow_open_admin",
        "drain_delay",
        "drain_timeout",
        "hash_tokens",
        "listen",
        "log.access",
        "skip_token_checks",
    ];
    const FROM_LMSTFY: &'static [&'static str] = &["log.level", "log.format", "pool"];

    fn log(&self) -> &LogConfig {
        &self.log
    }

    fn pid_file(&self) -> &Path {
        &self.pid_file
    }
}

/// How deployments are pumped.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PumpConfig {
    /// Name of this instance and token of its leases; empty = a new random one. Must be unique.
    pub instance: String,
    /// How long an instance that gives no sign of life keeps its buckets.
    #[serde(with = "humantime_serde")]
    pub lease: Duration,
    /// The longest time between two looks at a bucket, whatever is expected of it.
    #[serde(with = "humantime_serde")]
    pub sleep_max: Duration,
    /// Pause after Redis failed a call.
    #[serde(with = "humantime_serde")]
    pub retry_pause: Duration,
    /// Buckets with a backlog that are worked on at the same time on a server. Up to eight times as many run in all.
    pub concurrency: usize,
    /// Due hints that one call looks at; it holds Redis for about 2 to 4 µs each.
    pub move_limit: u64,
    /// Far hints that one call loads; about 1.6 µs each.
    pub load_limit: u64,
    /// Chunks of up to 100 jobs that one call sweeps; up to 0.5 ms each.
    pub sweep_limit: u64,
}

#[cfg(test)]
mod tests {
    use tidegate_launch::schema;
    use tidegate_service::{Sources, load, parse_toml};

    use super::*;

    #[test]
    fn every_number_and_duration_has_bounds() {
        assert_eq!(schema::<Config>().unwrap().gaps(), [""; 0]);
    }

    /// Every key of the API that the pump does not have.
    #[test]
    fn the_keys_of_the_api_may_be_in_the_environment() {
        let keys_of = |defaults: &str| {
            let table = parse_toml(defaults).unwrap();
            let keys = table.iter().flat_map(|(key, value)| {
                let inner = value.as_table().into_iter().flatten();
                let inner: Vec<String> = inner.map(|(name, _)| format!("{key}.{name}")).collect();
                if inner.is_empty() {
                    vec![key.clone()]
                } else {
                    inner
                }
            });
            keys.collect::<Vec<String>>()
        };
        let own = keys_of(DEFAULTS);
        let of_the_api = keys_of(include_str!("../../../config/api.toml"));
        let foreign = of_the_api.iter().filter(|key| !own.contains(key));
        let variables = foreign.map(|key| {
            let name = key.to_uppercase().replace('.', "__");
            (format!("TIDEGATE_{name}").into(), "any value".into())
        });
        let environment: Vec<_> = variables.collect();
        assert!(environment.len() > 20);
        let sources = Sources {
            defaults: DEFAULTS,
            schema: &schema::<Config>().unwrap(),
            foreign: None,
            file: None,
            env_prefix: "TIDEGATE",
            foreign_tables: Config::FOREIGN_TABLES,
            foreign_keys: Config::FOREIGN_KEYS,
            environment: &environment,
            flags: &[],
        };
        let loaded = load::<Config>(&sources).map_err(|error| error.to_string());
        assert_eq!(loaded.map(|loaded| loaded.unknown_variables), Ok(vec![]));
    }
}
