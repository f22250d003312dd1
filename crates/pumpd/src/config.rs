//! Settings of the daemon. `config/pumpd.toml` contains the defaults and describes every key.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde::Deserialize;
use tidegate_daemon::metrics::MetricsConfig;
use tidegate_daemon::traces::TracesConfig;
use tidegate_daemon::{LogConfig, Settings};
use tidegate_store::StoreConfig;

/// The built-in defaults of all keys, with comments.
pub const DEFAULTS: &str = include_str!("../../../config/pumpd.toml");

/// All settings of `tidegate-pumpd`.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PumpdConfig {
    /// Address of the admin port.
    pub admin_listen: SocketAddr,
    /// Time limit of connecting to Redis at the start.
    #[serde(with = "tidegate_core::duration")]
    pub connect_patience: Duration,
    /// Logging.
    pub log: LogConfig,
    /// Spans, and where they are sent.
    pub traces: TracesConfig,
    /// File for the process id; empty = none.
    pub pid_file: PathBuf,
    /// The Redis deployments, by name.
    pub pool: BTreeMap<String, StoreConfig>,
    /// The limits on the cost of metrics.
    pub metrics: MetricsConfig,
    /// Settings of the pumps.
    pub pump: PumpConfig,
}

impl Settings for PumpdConfig {
    const PROGRAM: &'static str = "tidegate-pumpd";
    const DEFAULTS: &'static str = DEFAULTS;
    const SIBLING: &'static str = include_str!("../../../config/api.toml");
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
    /// Length of a membership.
    #[serde(with = "tidegate_core::duration")]
    pub lease: Duration,
    /// Maximum time between two runs of a bucket.
    #[serde(with = "tidegate_core::duration")]
    pub sleep_max: Duration,
    /// Pause after a failed call to Redis.
    #[serde(with = "tidegate_core::duration")]
    pub retry_pause: Duration,
    /// Maximum number of buckets with a backlog that run at the same time on a server.
    pub concurrency: usize,
    /// Maximum number of due hints per call.
    pub move_limit: u64,
    /// Maximum number of far hints per call.
    pub load_limit: u64,
    /// Maximum number of chunks of jobs that one call sweeps.
    pub sweep_limit: u64,
    /// Number of leases that may expire before a job of the native API is dead.
    pub losses_max: u16,
}

#[cfg(test)]
mod tests {
    use tidegate_daemon::{Bound, Schema, Sources, load, parse_toml};
    use tidegate_store::{LOAD_HINTS_MAX, MOVE_TIMERS_MAX, SWEEP_CHUNKS_MAX};

    use super::*;

    #[test]
    fn every_number_and_duration_has_bounds() {
        assert_eq!(Schema::new(DEFAULTS).unwrap().gaps(), [""; 0]);
    }

    #[test]
    fn bounds_of_calls_are_those_of_the_store() {
        let schema = Schema::new(DEFAULTS).unwrap();
        for (key, least, most) in [
            // A call of move_due serves queues of two kinds: with a turn, and newly due.
            ("pump.move_limit", 2, MOVE_TIMERS_MAX),
            ("pump.load_limit", 1, LOAD_HINTS_MAX),
            ("pump.sweep_limit", 1, SWEEP_CHUNKS_MAX),
            // The count of losses in a record has four bits.
            ("pump.losses_max", 1, 15),
        ] {
            let expected = Bound::Number(least, most.try_into().unwrap());
            assert_eq!(schema.bound(key), Some(expected), "{key}");
        }
    }

    /// Both files are complete, so that each can be edited alone.
    #[test]
    fn pools_have_the_same_rows_in_both_daemons() {
        let rows = |defaults: &'static str| {
            let (_, pool) = defaults.split_once("\n[pool.default]\n").unwrap();
            let rows = pool.lines().take_while(|line| !line.starts_with('['));
            let rows = rows.filter(|line| !line.is_empty() && !line.starts_with("# "));
            rows.collect::<Vec<&str>>()
        };
        assert!(rows(DEFAULTS).len() > 20);
        assert_eq!(rows(DEFAULTS), rows(PumpdConfig::SIBLING));
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
        let without_default = "admin_store.url".to_owned();
        let foreign = foreign.chain([&without_default]);
        let variables = foreign.map(|key| {
            let name = key.to_uppercase().replace('.', "__");
            (format!("TIDEGATE_{name}").into(), "any value".into())
        });
        let environment: Vec<_> = variables.collect();
        assert!(environment.len() > 20);
        let sources = Sources {
            schema: &Schema::new(DEFAULTS).unwrap(),
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
