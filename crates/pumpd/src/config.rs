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

    use super::*;

    #[test]
    fn every_number_and_duration_has_bounds() {
        assert_eq!(schema::<Config>().unwrap().gaps(), [""; 0]);
    }
}
