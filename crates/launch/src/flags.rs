//! The flags that both daemons have.

use std::path::PathBuf;

use clap::Args;

/// A key with dots between its parts, and the value that a flag gives it.
pub(crate) type Override = (&'static str, String);

/// The flags that both daemons have. They may hold secrets, so they cannot be shown.
#[expect(missing_debug_implementations, reason = "they may hold secrets")]
#[derive(Clone, Args)]
pub struct CommonFlags {
    /// Settings that differ from the defaults, as TOML
    #[arg(long, value_name = "FILE")]
    pub(crate) config: Option<PathBuf>,

    /// Take settings from a configuration file of lmstfy; those of --config win over them
    #[arg(long, value_name = "FILE")]
    pub(crate) lmstfy_config: Option<PathBuf>,

    /// Show the settings in effect as TOML, without passwords, and end
    #[arg(long)]
    pub(crate) print_config: bool,

    /// The Redis of the default pool [default: redis://127.0.0.1:6379]
    #[arg(long, value_name = "URL")]
    redis: Option<String>,

    /// Start even if that Redis may lose jobs: no append-only file, or a policy that evicts keys
    #[arg(long)]
    allow_unsafe_redis: bool,

    /// error, warn, info, debug, trace, or a filter: info,tidegate_store=debug [default: info]
    #[arg(long, value_name = "LEVEL")]
    log_level: Option<String>,

    /// text or json [default: text]
    #[arg(long, value_name = "FORMAT")]
    log_format: Option<String>,

    /// Write the id of the process to this file while it runs
    #[arg(long, value_name = "FILE")]
    pid_file: Option<String>,
}

impl CommonFlags {
    /// The settings that the flags give.
    pub(crate) fn overrides(&self) -> Vec<Override> {
        let unsafe_server = self.allow_unsafe_redis.then(|| "warn".to_owned());
        let given = [
            ("pool.default.url", self.redis.clone()),
            ("pool.default.unsafe_server", unsafe_server),
            ("log.level", self.log_level.clone()),
            ("log.format", self.log_format.clone()),
            ("pid_file", self.pid_file.clone()),
        ];
        let given = given.into_iter();
        given
            .filter_map(|(key, value)| Some((key, value?)))
            .collect()
    }
}
