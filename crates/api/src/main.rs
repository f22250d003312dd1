//! `tidegate-api`: its flags.

use std::net::SocketAddr;
use std::process::ExitCode;

use clap::Parser;
use tidegate_api::{Config, translate};
use tidegate_launch::{CommonFlags, launch};

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

Settings come from built-in defaults, then a file of lmstfy (--lmstfy-config),
then the file given with --config, then environment variables (the key in
capitals with __ between its parts, as in TIDEGATE_LISTEN or
TIDEGATE_POOL__DEFAULT__URL), then the flags below. config/api.toml lists every
key with its default; --print-config shows what is in effect.";

#[derive(Parser)]
#[command(name = "tidegate-api", version, about = ABOUT, after_help = AFTER_HELP)]
struct Flags {
    #[command(flatten)]
    common: CommonFlags,

    /// Serve clients here; port 0 picks a free one [default: 127.0.0.1:7777]
    #[arg(long, value_name = "ADDRESS")]
    listen: Option<SocketAddr>,

    /// Serve tokens and metrics here; see [accounts] in the settings [default: 127.0.0.1:7778]
    #[arg(long, value_name = "ADDRESS")]
    admin_listen: Option<SocketAddr>,

    /// Start even if other machines reach the admin port and it has no accounts
    #[arg(long)]
    allow_open_admin: bool,

    /// Let everybody use every queue, with any token or none: for development
    #[arg(long)]
    skip_token_checks: bool,

    /// lmstfy's level from which log lines tell the place in the source
    #[arg(long, value_name = "LEVEL", hide = true)]
    bt: Option<String>,
}

const AFTER_HELP: &str = "\
Flags of lmstfy: -c FILE is --lmstfy-config, -p FILE is --pid-file, -sv is
--skip-token-checks, -v is --version. -bt LEVEL has no effect: every line of
the log tells the module.

Signals:
  TERM, INT  stop: waiting consumers are answered at once, others may finish;
             again: end drain_delay, or else the process at once
  HUP        reopen log files, and read again: log.level, log.access,
             [accounts], [job]; a warning names what else has changed
  USR1       reopen log files

GET /healthz and /readyz, on both ports, tell balancers whether it serves and
whether its Redis answers.

Exit status: 0 after a stop that was asked for, 1 if it could not start, 2 for
a wrong flag.

Try it:
  tidegate-api --redis redis://127.0.0.1:6379
  curl -X POST 'http://127.0.0.1:7778/token/demo?description=me'
  curl -X PUT -H 'X-Token: TOKEN' -d hello 'http://127.0.0.1:7777/api/demo/mail?delay=5&tries=3'
  curl -H 'X-Token: TOKEN' 'http://127.0.0.1:7777/api/demo/mail?timeout=30&ttr=60'
  curl -X DELETE -H 'X-Token: TOKEN' 'http://127.0.0.1:7777/api/demo/mail/job/JOB_ID'";

impl Flags {
    /// The settings that its own flags give.
    fn overrides(&self) -> Vec<(&'static str, String)> {
        let is_set = |flag: bool| flag.then(|| "true".to_owned());
        let text = |address: SocketAddr| address.to_string();
        let given = [
            ("listen", self.listen.map(text)),
            ("admin_listen", self.admin_listen.map(text)),
            ("allow_open_admin", is_set(self.allow_open_admin)),
            ("skip_token_checks", is_set(self.skip_token_checks)),
        ];
        let given = given.into_iter();
        given
            .filter_map(|(key, value)| Some((key, value?)))
            .collect()
    }
}

fn main() -> ExitCode {
    let flags = Flags::parse_from(translate(std::env::args_os()));
    let own = flags.overrides();
    let bt = flags.bt;
    launch(flags.common, own, async move |config: Config, process| {
        if let Some(level) = bt {
            tracing::info!(
                level,
                "-bt has no effect: every line of the log tells the module"
            );
        }
        tidegate_api::run(config, process).await
    })
}
