//! The flags of `tidegate-pumpd`. The library describes how it works.

use std::net::SocketAddr;
use std::process::ExitCode;

use clap::{Parser, Subcommand};
use tidegate_daemon::{CommonFlags, launch};
use tidegate_pumpd::AuditFlags;

const ABOUT: &str = "\
Timer daemon of Tidegate: makes jobs ready when they are due, returns jobs whose
lease has expired to their queues, and deletes expired jobs.

Run two or more instances per deployment. They share the buckets evenly. If an
instance stops or fails, the others take over its buckets.

Settings are read from the following sources; later ones override earlier ones:
built-in defaults, a configuration file of lmstfy (--lmstfy-config: its pools,
log level and log format), the file given with --config, environment variables
(the key in capitals with __ between its parts, such as TIDEGATE_PUMP__LEASE or
TIDEGATE_POOL__DEFAULT__URL), and the flags below. config/pumpd.toml lists all
keys with their defaults; --print-config shows the effective settings.";

const AFTER_HELP: &str = "\
Signals:
  TERM, INT  stop, and release the buckets to the other instances;
             a second signal, at least a second later, ends the process
  HUP        reopen log files, and reload log.level; a warning lists other
             changed settings, which need a restart
  USR1       reopen log files

Admin port:
  GET /healthz  200 while the process runs
  GET /readyz   200 if Redis replies, and roster membership and leases are in
                order on every server; otherwise, or while it stops, 503 with
                the reasons
  GET /metrics  metrics in the text format of Prometheus
The port replies from the start on, also while the daemon waits for Redis.

Exit status: 0 after a requested stop, 1 if the daemon could not start, 2 for an
invalid flag.";

#[derive(Parser)]
#[command(name = "tidegate-pumpd", version, about = ABOUT, after_help = AFTER_HELP)]
#[command(args_conflicts_with_subcommands = true, disable_help_subcommand = true)]
struct PumpdFlags {
    #[command(subcommand)]
    command: Option<PumpdCommand>,

    #[command(flatten)]
    common: CommonFlags,

    /// Address of the admin port (health, metrics); port 0 picks a free port [default: 127.0.0.1:7779]
    #[arg(long, value_name = "ADDRESS")]
    admin_listen: Option<SocketAddr>,

    /// Unique name of this instance [default: random]
    #[arg(long, value_name = "NAME")]
    instance: Option<String>,

    /// Time until the other instances take over the buckets of a failed instance [default: 3s]
    #[arg(long, value_name = "DURATION")]
    lease: Option<String>,
}

#[derive(Subcommand)]
enum PumpdCommand {
    /// Check the data of a pool in Redis for inconsistencies; --repair repairs them
    Audit(AuditFlags),
}

impl PumpdFlags {
    /// The settings of the flags that only this daemon has.
    fn settings(&self) -> [(&'static str, Option<String>); 3] {
        let admin_listen = self.admin_listen.map(|address| address.to_string());
        [
            ("admin_listen", admin_listen),
            ("pump.instance", self.instance.clone()),
            ("pump.lease", self.lease.clone()),
        ]
    }
}

fn main() -> ExitCode {
    let flags = PumpdFlags::parse();
    if let Some(PumpdCommand::Audit(audit)) = flags.command {
        return audit.run();
    }
    let own = flags.settings();
    launch(flags.common, own, tidegate_pumpd::run)
}
