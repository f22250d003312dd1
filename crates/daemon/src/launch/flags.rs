//! Command-line flags of the daemons.

use std::path::PathBuf;

use clap::Args;

/// A settings key as a dotted path, and the value that its flag gives it, if the flag is set.
pub(crate) type Flag = (&'static str, Option<String>);

/// Command-line flags of every daemon. They may hold secrets, so there is no `Debug`.
#[expect(missing_debug_implementations, reason = "they may hold secrets")]
#[derive(Clone, Args)]
pub struct ProcessFlags {
    /// TOML file with the settings that differ from the defaults
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,

    /// Print the effective settings and their sources as TOML, without secrets, and exit
    #[arg(long)]
    print_config: bool,

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

/// Command-line flags of the daemons that have pools. They may hold secrets, so there is no `Debug`.
#[expect(missing_debug_implementations, reason = "they may hold secrets")]
#[derive(Clone, Args)]
pub struct CommonFlags {
    #[command(flatten)]
    process: ProcessFlags,

    /// Also read settings from a configuration file of lmstfy; --config overrides them
    #[arg(long, value_name = "FILE")]
    lmstfy_config: Option<PathBuf>,

    /// URL of the Redis server of the default pool [default: redis://127.0.0.1:6379]
    #[arg(long, value_name = "URL")]
    redis: Option<String>,

    /// Start even if the default pool's Redis may lose jobs: no append-only file, or an eviction
    /// policy
    #[arg(long)]
    allow_unsafe_redis: bool,
}

/// The values of the flags of a daemon.
#[expect(missing_debug_implementations, reason = "they may hold secrets")]
#[derive(Clone)]
pub struct LaunchFlags {
    pub(crate) config: Option<PathBuf>,
    pub(crate) lmstfy_config: Option<PathBuf>,
    pub(crate) print_config: bool,
    pub(crate) settings: Vec<Flag>,
}

impl From<ProcessFlags> for LaunchFlags {
    fn from(flags: ProcessFlags) -> Self {
        Self {
            config: flags.config,
            lmstfy_config: None,
            print_config: flags.print_config,
            settings: vec![
                ("log.level", flags.log_level),
                ("log.format", flags.log_format),
                ("pid_file", flags.pid_file),
            ],
        }
    }
}

impl From<CommonFlags> for LaunchFlags {
    fn from(flags: CommonFlags) -> Self {
        let unsafe_server = flags.allow_unsafe_redis.then(|| "warn".to_owned());
        let mut all = Self::from(flags.process);
        all.lmstfy_config = flags.lmstfy_config;
        all.settings.extend([
            ("pool.default.url", flags.redis),
            ("pool.default.unsafe_server", unsafe_server),
        ]);
        all
    }
}
