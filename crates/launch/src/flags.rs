//! Command-line flags of both daemons.

use std::path::PathBuf;

use clap::Args;

/// A settings key as a dotted path, and the value that its flag gives it, if the flag is set.
pub(crate) type Flag = (&'static str, Option<String>);

/// Command-line flags of both daemons. They may hold secrets, so there is no `Debug`.
#[expect(missing_debug_implementations, reason = "they may hold secrets")]
#[derive(Clone, Args)]
pub struct CommonFlags {
    /// TOML file with the settings that differ from the defaults
    #[arg(long, value_name = "FILE")]
    pub(crate) config: Option<PathBuf>,

    /// Also read settings from a configuration file of lmstfy; --config overrides them
    #[arg(long, value_name = "FILE")]
    pub(crate) lmstfy_config: Option<PathBuf>,

    /// Print the effective settings and their sources as TOML, without secrets, and exit
    #[arg(long)]
    pub(crate) print_config: bool,

    /// URL of the Redis server of the default pool [default: redis://127.0.0.1:6379]
    #[arg(long, value_name = "URL")]
    redis: Option<String>,

    /// Start even if the default pool's Redis may lose jobs: no append-only file, or an eviction
    /// policy
    #[arg(long)]
    allow_unsafe_redis: bool,

    /// error, warn, info, debug, trace, or a filter such as info,tidegate_store=debug [default:
    /// info]
    #[arg(long, value_name = "LEVEL")]
    log_level: Option<String>,

    /// Format of log lines: text or json [default: text]
    #[arg(long, value_name = "FORMAT")]
    log_format: Option<String>,

    /// Write the process id to this file; it is removed when the process ends
    #[arg(long, value_name = "FILE")]
    pid_file: Option<String>,
}

impl CommonFlags {
    /// Returns the settings that the flags give.
    pub(crate) fn settings(&self) -> [Flag; 5] {
        let unsafe_server = self.allow_unsafe_redis.then(|| "warn".to_owned());
        [
            ("pool.default.url", self.redis.clone()),
            ("pool.default.unsafe_server", unsafe_server),
            ("log.level", self.log_level.clone()),
            ("log.format", self.log_format.clone()),
            ("pid_file", self.pid_file.clone()),
        ]
    }
}
