//! `tidegate-api`: flags, settings, logs, then the daemon.

use std::io::Write;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::Parser;
use tidegate_api::{Config, DEFAULTS};
use tidegate_service::{Sources, ignored_variables, load, logs, process_environment};

/// hyper holds two buffers of 8 KiB for each connection, and those of a waiting consumer are all but
/// unused. An allocator that writes its own notes into or next to a block makes each of them cost a page
/// of memory at least; jemalloc keeps its notes elsewhere. Measured with 10 000 waiting consumers: 6 to 9
/// KiB each, against 13 to 15 with the allocator of glibc.
#[cfg(feature = "jemalloc")]
#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

const ABOUT: &str = "\
Publish, consume and acknowledge delayed jobs over HTTP.

Jobs are kept in Redis. Any number of these processes may serve the same Redis;
tidegate-pumpd makes delayed jobs consumable when they are due.

Settings come from built-in defaults, then the file given with --config, then
environment variables (the key in capitals with __ between its parts, as in
TIDEGATE_LISTEN or TIDEGATE_POOL__DEFAULT__URL), then the flags below.
config/api.toml lists every key with its default.";

#[derive(Debug, Parser)]
#[command(version, about = ABOUT, after_help = AFTER_HELP)]
struct Flags {
    /// Settings that differ from the defaults, as TOML
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,

    /// Serve clients here; port 0 picks a free one [default: 127.0.0.1:7777]
    #[arg(long, value_name = "ADDRESS")]
    listen: Option<SocketAddr>,

    /// Serve tokens and metrics here; see [accounts] in the settings [default: 127.0.0.1:7778]
    #[arg(long, value_name = "ADDRESS")]
    admin_listen: Option<SocketAddr>,

    /// Start even if other machines reach the admin port and it has no accounts
    #[arg(long)]
    allow_open_admin: bool,

    /// The Redis of the default pool [default: redis://127.0.0.1:6379]
    #[arg(long, value_name = "URL")]
    redis: Option<String>,

    /// Start even if that Redis may lose jobs: no append-only file, or a policy that evicts keys
    #[arg(long)]
    allow_unsafe_redis: bool,

    /// error, warn, info, debug, trace, or a filter: info,tidegate_api=debug [default: info]
    #[arg(long, value_name = "LEVEL")]
    log_level: Option<String>,

    /// text or json [default: text]
    #[arg(long, value_name = "FORMAT")]
    log_format: Option<String>,
}

const AFTER_HELP: &str = "\
SIGTERM or SIGINT stops it: waiting consumers are answered at once, other requests may finish.

Exit status: 0 after a stop that was asked for, 1 if it could not start.

Try it:
  tidegate-api --redis redis://127.0.0.1:6379
  curl -X POST 'http://127.0.0.1:7778/token/demo?description=me'
  curl -X PUT -H 'X-Token: TOKEN' -d hello 'http://127.0.0.1:7777/api/demo/mail?delay=5&tries=3'
  curl -H 'X-Token: TOKEN' 'http://127.0.0.1:7777/api/demo/mail?timeout=30&ttr=60'
  curl -X DELETE -H 'X-Token: TOKEN' 'http://127.0.0.1:7777/api/demo/mail/job/JOB_ID'";

impl Flags {
    fn overrides(&self) -> Vec<(&'static str, String)> {
        let open_admin = self.allow_open_admin.then(|| "true".to_owned());
        let unsafe_server = self.allow_unsafe_redis.then(|| "warn".to_owned());
        [
            ("listen", self.listen.map(|address| address.to_string())),
            (
                "admin_listen",
                self.admin_listen.map(|address| address.to_string()),
            ),
            ("allow_open_admin", open_admin),
            ("pool.default.url", self.redis.clone()),
            ("pool.default.unsafe_server", unsafe_server),
            ("log.level", self.log_level.clone()),
            ("log.format", self.log_format.clone()),
        ]
        .into_iter()
        .filter_map(|(key, value)| Some((key, value?)))
        .collect()
    }
}

fn main() -> ExitCode {
    match start(&Flags::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            // Logs may not be set up, and whoever started it by hand should not have to read them.
            // There is nowhere left to say that this failed.
            let _ = writeln!(std::io::stderr(), "tidegate-api: {error}");
            ExitCode::FAILURE
        }
    }
}

fn start(flags: &Flags) -> Result<(), Box<dyn std::error::Error>> {
    let sources = Sources {
        defaults: DEFAULTS,
        file: flags.config.as_deref(),
        env_prefix: "TIDEGATE",
        environment: &process_environment(),
        flags: &flags.overrides(),
    };
    let config: Config = load(&sources)?;
    logs::init(&config.log)?;
    for name in ignored_variables(&sources) {
        tracing::debug!(name, "no setting has the name of this environment variable");
    }
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()?;
    runtime.block_on(tidegate_api::run(config))?;
    Ok(())
}
