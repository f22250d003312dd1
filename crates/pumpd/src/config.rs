//! Settings of the daemon. `config/pumpd.toml` contains the defaults and describes every key.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde::Deserialize;
use tidegate_daemon::Settings;
use tidegate_daemon::traces::{SAMPLE_ONE_IN_BOUND, TracesConfig};
use tidegate_daemon::{Bound, LogConfig};
use tidegate_store::{LOAD_HINTS_MAX, MOVE_TIMERS_MAX, SWEEP_CHUNKS_MAX, StoreConfig};

/// The built-in defaults of all keys, with comments.
pub const DEFAULTS: &str = include_str!("../../../config/pumpd.toml");

/// The keys of the API. The table `admin_store` has no defaults.
const OF_THE_API: &str = concat!(
    include_str!("../../../config/api.toml"),
    "\n[admin_store]\n"
);

const HOUR: Duration = Duration::from_secs(3600);

/// Minimum and maximum of every number and duration.
const BOUNDS: [(&str, Bound); 10] = [
    SAMPLE_ONE_IN_BOUND,
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
    // A call of move_due serves queues of two kinds: with a turn, and newly due.
    ("pump.move_limit", Bound::Number(2, MOVE_TIMERS_MAX as i64)),
    ("pump.load_limit", Bound::Number(1, LOAD_HINTS_MAX as i64)),
    (
        "pump.sweep_limit",
        Bound::Number(1, SWEEP_CHUNKS_MAX as i64),
    ),
    // The count of losses in a record ends at 15.
    ("pump.losses_max", Bound::Number(1, 15)),
];

/// All settings of `tidegate-pumpd`.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PumpdConfig {
    /// Address of the admin port.
    pub admin_listen: SocketAddr,
    /// Time limit of connecting to Redis at the start.
    #[serde(with = "tidegate_duration")]
    pub connect_patience: Duration,
    /// Logging.
    pub log: LogConfig,
    /// Spans, and where they are sent.
    pub traces: TracesConfig,
    /// File for the process id; empty = none.
    pub pid_file: PathBuf,
    /// The Redis deployments, by name.
    pub pool: BTreeMap<String, StoreConfig>,
    /// Settings of the pumps.
    pub pump: PumpConfig,
}

impl Settings for PumpdConfig {
    const PROGRAM: &'static str = "tidegate-pumpd";
    const DEFAULTS: &'static str = DEFAULTS;
    const BOUNDS: &'static [(&'static str, Bound)] = &BOUNDS;
    const RELOADABLE: &'static [&'static str] = &["log.level"];
    const SIBLING: &'static str = OF_THE_API;
    const FROM_LMSTFY: &'static [&'static str] = &["log.level", "log.format", "pool"];

    fn log(&self) -> &LogConfig {
        &self.log
    }

    fn traces(&self) -> &TracesConfig {
        &self.traces
    }

    fn pid_file(&self) -> &Path {
        &self.pid_file
    }
}

/// Settings of the pumps.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PumpConfig {
    /// Unique name of this instance, and token of its locks; empty = a random one at each start.
    pub instance: String,
    /// Length of a membership: time until other instances take over the buckets of one that has failed.
    #[serde(with = "tidegate_duration")]
    pub lease: Duration,
    /// Maximum time between two runs of a bucket.
    #[serde(with = "tidegate_duration")]
    pub sleep_max: Duration,
    /// Pause after a failed call to Redis.
    #[serde(with = "tidegate_duration")]
    pub retry_pause: Duration,
    /// Maximum number of buckets with a backlog that run at the same time on a server. Together with other buckets, up
    /// to eight times as many run.
    pub concurrency: usize,
    /// Maximum number of due hints per call; each blocks Redis for about 2 to 4 µs.
    pub move_limit: u64,
    /// Maximum number of far hints per call; each blocks Redis for about 1.6 µs.
    pub load_limit: u64,
    /// Maximum number of chunks of up to 100 jobs that one call sweeps; each blocks Redis for up to 0.5 ms.
    pub sweep_limit: u64,
    /// Number of leases that may expire before a job of the native API is dead.
    pub losses_max: u16,
}

#[cfg(test)]
mod tests {
    use tidegate_daemon::schema;
    use tidegate_daemon::{Sources, load, parse_toml};

    use super::*;

    #[test]
    fn every_number_and_duration_has_bounds() {
        assert_eq!(schema::<PumpdConfig>().unwrap().gaps(), [""; 0]);
    }

    /// All keys of the API that the pump does not have are accepted in the environment.
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
            schema: &schema::<PumpdConfig>().unwrap(),
            foreign: None,
            file: None,
            env_prefix: "TIDEGATE",
            sibling: PumpdConfig::SIBLING,
            environment: &environment,
            flags: &[],
        };
        let loaded = load::<PumpdConfig>(&sources).map_err(|error| error.to_string());
        assert_eq!(loaded.map(|loaded| loaded.unknown_variables), Ok(vec![]));
    }
}
