//! The flags of `tidegate-relayd`. The library describes how it works.

use std::net::SocketAddr;
use std::process::ExitCode;

use clap::Parser;
use tidegate_daemon::{ProcessFlags, launch};

const ABOUT: &str = "\
Passes jobs on: from a queue of a Tidegate or of a server of the lmstfy wire to a
webhook, NATS, RabbitMQ, Kafka, or a queue of another Tidegate.

Run two or more instances with the same settings. They share the jobs. If one
fails, the others deliver its jobs when their leases expire.

Settings are read from the following sources; later ones override earlier ones:
built-in defaults, the file given with --config, environment variables (the key in
capitals with __ between its parts, such as TIDEGATE_RELAY__ORDERS__SINK__SECRET),
and the flags below. config/relayd.toml lists all keys with their defaults;
--print-config shows the effective settings.";

const AFTER_HELP: &str = "\
Signals:
  TERM, INT  stop reserving jobs, and finish the deliveries that are in flight;
             a second signal, at least a second later, ends the process
  HUP        reopen log files, and reload log.level; a warning lists other
             changed settings, which need a restart
  USR1       reopen log files

Admin port:
  GET /relays   state and counts of each relay, as JSON
  GET /healthz  200 while the process runs
  GET /readyz   200 while the relays run; 503 while the process stops
  GET /metrics  metrics in the text format of Prometheus

Exit status: 0 after a requested stop, 1 if the daemon could not start, 2 for an
invalid flag.";

#[derive(Parser)]
#[command(name = "tidegate-relayd", version, about = ABOUT, after_help = AFTER_HELP)]
struct RelaydFlags {
    #[command(flatten)]
    process: ProcessFlags,

    /// Address of the admin port (relays, health, metrics); port 0 picks a free port [default: 127.0.0.1:7780]
    #[arg(long, value_name = "ADDRESS")]
    admin_listen: Option<SocketAddr>,
}

fn main() -> ExitCode {
    let flags = RelaydFlags::parse();
    let admin_listen = flags.admin_listen.map(|address| address.to_string());
    launch(
        flags.process,
        [("admin_listen", admin_listen)],
        tidegate_relayd::run,
    )
}
