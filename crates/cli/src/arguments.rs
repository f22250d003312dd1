//! The arguments of the command line.

pub(crate) mod admin_port;
pub(crate) mod choice;
pub(crate) mod connection;
pub(crate) mod filter;
pub(crate) mod interval;
pub(crate) mod job;
pub(crate) mod key;
pub(crate) mod namespace;
pub(crate) mod publish;
pub(crate) mod queue;
pub(crate) mod rate;
pub(crate) mod schedule;

use std::path::PathBuf;

use clap::{Parser, Subcommand};
use clap_complete::Shell;
use tidegate::DurationMs;

use crate::bench::BenchArguments;
use crate::capacity::CapacityArguments;
use crate::cold::ColdArguments;
use crate::dev::DevArguments;
use crate::doctor::DoctorArguments;
use crate::tail::TailArguments;
use crate::top::TopArguments;
use crate::work::WorkArguments;
use connection::ConnectionArguments;
use job::{DeadCommand, JobCommand};
use key::KeyCommand;
use namespace::NamespaceArguments;
use publish::PublishArguments;
use queue::QueueCommand;
use rate::LimitCommand;
use schedule::ScheduleCommand;

/// Publishes and manages jobs of a Tidegate server.
///
/// Exit codes: 0 success, 1 refused by the server or not done, 2 wrong usage, 3 the server is unreachable.
#[derive(Debug, Parser)]
#[command(
    name = "tidegate",
    version,
    after_help = "Example:
  export TG_URL=http://127.0.0.1:7777 TG_NAMESPACE=demo TG_KEY=…
  tidegate publish close-unpaid '{\"order\":17}' --key order-17 --delay 30m
  tidegate job show close-unpaid key:order-17"
)]
pub(crate) struct CliArguments {
    #[command(flatten)]
    pub(crate) connection: ConnectionArguments,
    /// Prints JSON for scripts.
    #[arg(long, global = true)]
    pub(crate) json: bool,
    #[command(subcommand)]
    pub(crate) command: CliCommand,
}

#[derive(Debug, Subcommand)]
pub(crate) enum CliCommand {
    #[command(flatten)]
    Api(ApiCommand),
    /// Runs a program for each job.
    Work(WorkArguments),
    /// Shows the queues of the namespace with their numbers of jobs, live.
    Top(TopArguments),
    /// Follows the jobs of a queue: prints each job when it appears, and when its state changes.
    Tail(TailArguments),
    /// Runs a deployment on this machine for development: a private Redis, the API, a pump.
    Dev(DevArguments),
    /// Shows and sets the limits of namespaces, on the admin port.
    Namespace(NamespaceArguments),
    /// Shows the cold tier: payloads of far jobs in an object store.
    Cold(ColdArguments),
    /// Checks a deployment, and names a remedy for each problem. Exit code 1: there are problems.
    Doctor(DoctorArguments),
    /// Publishes and consumes for a while on a separate queue, and prints rates and latencies.
    Bench(BenchArguments),
    /// Calculates the cores, servers and bytes that a load needs, from measured costs. Contacts no server.
    Capacity(CapacityArguments),
    /// Prints the completions for a shell: source <(tidegate completions bash).
    Completions {
        /// The shell.
        shell: Shell,
    },
    /// Writes a manual page for each command into a folder.
    Man {
        /// The folder, such as /usr/local/share/man/man1.
        folder: PathBuf,
    },
}

/// The commands that are one call of the API.
#[derive(Debug, Subcommand)]
pub(crate) enum ApiCommand {
    /// Publishes a job.
    Publish(PublishArguments),
    /// Publishes a job, waits for its result, and prints the result. Needs the scopes publish and read.
    Call {
        #[command(flatten)]
        job: PublishArguments,
        /// The longest wait. The job stays in its queue if it is not done in time.
        #[arg(long, default_value = "20s")]
        wait: DurationMs,
    },
    /// Lists, shows and changes jobs.
    #[command(subcommand)]
    Job(JobCommand),
    /// Shows and changes queues.
    #[command(subcommand)]
    Queue(QueueCommand),
    /// Shows and sets limits, which several queues share.
    #[command(
        subcommand,
        after_help = "Example:
  tidegate limit set smtp 100/1s
  tidegate queue limit mails smtp
  tidegate queue limit newsletters smtp"
    )]
    Limit(LimitCommand),
    /// Lists dead jobs, brings them back, or deletes them.
    #[command(subcommand)]
    Dead(DeadCommand),
    /// Shows and sets schedules, which publish a job again and again.
    #[command(
        subcommand,
        after_help = "Example:
  tidegate schedule set digest mails '{\"kind\":\"digest\"}' --cron '0 9 * * MON-FRI' --time-zone Europe/Berlin
  tidegate schedule show digest
  tidegate schedule pause digest"
    )]
    Schedule(ScheduleCommand),
    /// Creates, lists and revokes API keys. Needs the scope admin.
    #[command(subcommand)]
    Key(KeyCommand),
}
