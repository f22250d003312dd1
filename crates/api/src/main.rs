//! `tidegate-api`: the binary and its command-line flags.

use std::net::SocketAddr;
use std::process::ExitCode;

use clap::Parser;
use tidegate_api::{ApiConfig, translate};
use tidegate_daemon::{CommonFlags, launch};

/// hyper allocates two buffers of 8 KiB for each connection, and a waiting consumer hardly touches them. An allocator
/// that writes metadata into or next to a block touches at least one page of each buffer; jemalloc stores its metadata
/// elsewhere. docs/decisions/0071-cpu-of-the-api.md has the figures.
#[cfg(feature = "jemalloc")]
#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

const ABOUT: &str = "\
Publish, consume and acknowledge delayed jobs over HTTP.

Jobs are stored in Redis. Any number of these processes may serve the same
Redis. Delayed jobs become consumable only while tidegate-pumpd runs as well.

Settings are read from these sources; each overrides those before it:
  1. built-in defaults (config/api.toml lists every key with its default)
  2. a configuration file of lmstfy (--lmstfy-config)
  3. a TOML file (--config)
  4. environment variables: TIDEGATE_ and the key in capitals, with __ between
     its parts, such as TIDEGATE_LISTEN or TIDEGATE_POOL__DEFAULT__URL
  5. the flags below
--print-config shows the settings in effect.";

#[derive(Parser)]
#[command(name = "tidegate-api", version, about = ABOUT, after_help = AFTER_HELP)]
struct ApiFlags {
    #[command(flatten)]
    common: CommonFlags,

    /// Address of the public HTTP listener; port 0 picks a free port [default: 127.0.0.1:7777]
    #[arg(long, value_name = "ADDRESS")]
    listen: Option<SocketAddr>,

    /// Address of the admin HTTP listener (dashboard, /v1 for operators, tokens, metrics); set `accounts` to require
    /// credentials [default: 127.0.0.1:7778]
    #[arg(long, value_name = "ADDRESS")]
    admin_listen: Option<SocketAddr>,

    /// Start even if other machines can reach the admin port and no accounts are configured
    #[arg(long)]
    allow_open_admin: bool,

    /// Accept requests with any token or none, for every queue; for development only
    #[arg(long)]
    skip_token_checks: bool,

    /// Log level from which lmstfy adds the source location; without effect here
    #[arg(long, value_name = "LEVEL", hide = true)]
    bt: Option<String>,
}

const AFTER_HELP: &str = "\
Flags of lmstfy: -c FILE is --lmstfy-config, -p FILE is --pid-file, -sv is
--skip-token-checks, -v is --version. -bt LEVEL is accepted and has no effect:
every log line names its module.

Signals:
  TERM, INT  stop after drain_delay: waiting consumers are answered at once,
             other requests have drain_timeout to finish. A second signal
             during drain_delay ends the delay; any other further signal ends
             the process at once. Signals within a second count as one
  HUP        reopen log files and reload log.level, log.access, [accounts],
             [account_roles], [job] and [namespace_limits]; a warning names
             other keys that have changed
  USR1       reopen log files

Health checks for load balancers, on both ports, without a token:
  GET /healthz  200 while the process runs
  GET /readyz   200 if Redis answers and the process is not stopping, else 503

Exit status: 0 after a stop, 1 if the start failed or a further signal ended
the process, 2 for an invalid flag.

Examples:
  tidegate-api --redis redis://127.0.0.1:6379
  curl -X POST 'http://127.0.0.1:7778/token/demo?description=me'
  curl -X PUT -H 'X-Token: TOKEN' -d hello 'http://127.0.0.1:7777/api/demo/mail?delay=5&tries=3'
  curl -H 'X-Token: TOKEN' 'http://127.0.0.1:7777/api/demo/mail?timeout=30&ttr=60'
  curl -X DELETE -H 'X-Token: TOKEN' 'http://127.0.0.1:7777/api/demo/mail/job/JOB_ID'";

impl ApiFlags {
    /// The settings given by the flags that only this daemon has.
    fn settings(&self) -> [(&'static str, Option<String>); 4] {
        let is_set = |flag: bool| flag.then(|| "true".to_owned());
        let text = |address: SocketAddr| address.to_string();
        [
            ("listen", self.listen.map(text)),
            ("admin_listen", self.admin_listen.map(text)),
            ("allow_open_admin", is_set(self.allow_open_admin)),
            ("skip_token_checks", is_set(self.skip_token_checks)),
        ]
    }
}

fn main() -> ExitCode {
    let flags = ApiFlags::parse_from(translate(std::env::args_os()));
    let own = flags.settings();
    let bt = flags.bt;
    launch(
        flags.common,
        own,
        async move |config: ApiConfig, process| {
            if let Some(level) = bt {
                tracing::info!(level, "-bt has no effect: every log line names its module");
            }
            tidegate_api::run(config, process).await
        },
    )
}
