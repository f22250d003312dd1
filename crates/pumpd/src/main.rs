//! `tidegate-pumpd`: its flags. See the library for how it works.

use std::net::SocketAddr;
use std::process::ExitCode;

use clap::{Parser, Subcommand};
use tidegate_launch::{CommonFlags, launch};
use tidegate_pumpd::AuditFlags;

const ABOUT: &str = "\
Makes jobs consumable when they are due.

Run two or more for a deployment: they share the work, and each takes over when
another dies.

Settings come from built-in defaults, then a file of lmstfy (--lmstfy-config:
its pools and its log level), then the file given with --config, then
environment variables (the key in capitals with __ between its parts, as in
TIDEGATE_PUMP__LEASE or TIDEGATE_POOL__DEFAULT__URL), then the flags below.
config/pumpd.toml lists every key with its default; --print-config shows what
is in effect.";

const AFTER_HELP: &str = "\
Signals:
  TERM, INT  stop: the buckets are handed to the other instances at once;
             again: end the process at once
  HUP        reopen log files, and read log.level again; a warning names
             what else has changed
  USR1       reopen log files

GET /healthz and /readyz on the admin port tell whether it runs, and whether it
takes part in the work. They are answered from the start on, while it waits for
Redis.

Exit status: 0 after a stop that was asked for, 1 if it could not start, 2 for
a wrong flag.";

#[derive(Parser)]
#[command(name = "tidegate-pumpd", version, about = ABOUT, after_help = AFTER_HELP)]
#[command(args_conflicts_with_subcommands = true, disable_help_subcommand = true)]
struct Flags {
    #[command(subcommand)]
    command: Option<Command>,

    #[command(flatten)]
    common: CommonFlags,

    /// Serve metrics here; port 0 picks a free one [default: 127.0.0.1:7779]
    #[arg(long, value_name = "ADDRESS")]
    admin_listen: Option<SocketAddr>,

    /// Name of this instance, which must be unique [default: random]
    #[arg(long, value_name = "NAME")]
    instance: Option<String>,

    /// How long a bucket stays with an instance that gives no sign of life [default: 3s]
    #[arg(long, value_name = "DURATION")]
    lease: Option<String>,
}

#[derive(Subcommand)]
enum Command {
    /// Look through the buckets of a pool for what is not as it should be, and end
    Audit(AuditFlags),
}

impl Flags {
    /// The settings that its own flags give.
    fn overrides(&self) -> Vec<(&'static str, String)> {
        let admin_listen = self.admin_listen.map(|address| address.to_string());
        let given = [
            ("admin_listen", admin_listen),
            ("pump.instance", self.instance.clone()),
            ("pump.lease", self.lease.clone()),
        ];
        let given = given.into_iter();
        given
            .filter_map(|(key, value)| Some((key, value?)))
            .collect()
    }
}

fn main() -> ExitCode {
    let flags = Flags::parse();
    if let Some(Command::Audit(audit)) = flags.command {
        return audit.run();
    }
    let own = flags.overrides();
    launch(flags.common, own, tidegate_pumpd::run)
}
