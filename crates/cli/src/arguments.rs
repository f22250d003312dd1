//! The arguments of the command line.

pub(crate) mod choice;
pub(crate) mod connection;
pub(crate) mod filter;

use std::path::PathBuf;

use clap::{Args, Parser, Subcommand};
use clap_complete::Shell;
use tidegate::api::job::ActName;
use tidegate::api::keys::KeyScope;
use tidegate::api::values::{FilterText, JobsPerSecond};
use tidegate::{DurationMs, IfExists, IfRunning, Timestamp};

use crate::bench::BenchArguments;
use crate::capacity::CapacityArguments;
use crate::dev::DevArguments;
use crate::doctor::DoctorArguments;
use crate::tail::TailArguments;
use crate::top::TopArguments;
use crate::work::WorkArguments;
use choice::choice;
use connection::ConnectionArguments;
use filter::FilterArguments;

/// Publishes and manages jobs of a Tidegate server.
///
/// Exit codes: 0 success, 1 refused by the server or not done, 2 wrong usage, 3 the server is unreachable.
#[derive(Debug, Parser)]
#[command(
    name = "tidegate",
    version,
    after_help = "Example:
  export TIDEGATE_URL=http://127.0.0.1:7777 TIDEGATE_NAMESPACE=demo TIDEGATE_KEY=…
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
    /// Checks a deployment, and names a remedy for each problem. Exit code 1: there are problems.
    Doctor(DoctorArguments),
    /// Publishes and consumes for a while on a queue of its own, and prints rates and latencies.
    Bench(BenchArguments),
    /// Calculates how many cores, servers and bytes a load needs, from measured costs. Contacts no server.
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
        /// How long to wait. The job stays in its queue if it is not done in time.
        #[arg(long, default_value = "20s")]
        wait: DurationMs,
    },
    /// Lists, shows and changes jobs.
    #[command(subcommand)]
    Job(JobCommand),
    /// Shows and changes queues.
    #[command(subcommand)]
    Queue(QueueCommand),
    /// Lists dead jobs, brings them back, or deletes them.
    #[command(subcommand)]
    Dead(DeadCommand),
    /// Creates, lists and revokes API keys. Needs the scope admin.
    #[command(subcommand)]
    Key(KeyCommand),
}

#[derive(Debug, Args)]
pub(crate) struct PublishArguments {
    /// The queue.
    pub(crate) queue: String,
    /// The payload. Default: the standard input.
    #[arg(conflicts_with = "file")]
    pub(crate) payload: Option<String>,
    /// Reads the payload from a file.
    #[arg(long)]
    pub(crate) file: Option<PathBuf>,
    /// The content type of the payload.
    #[arg(long, default_value = "application/json")]
    pub(crate) content_type: String,
    /// When the job is due, from now on: 500ms, 30m, 2h.
    #[arg(long, conflicts_with = "run_at")]
    pub(crate) delay: Option<DurationMs>,
    /// When the job is due: 2027-01-01T00:00:00Z.
    #[arg(long)]
    pub(crate) run_at: Option<Timestamp>,
    /// A name of the job that is unique in its queue.
    #[arg(long)]
    pub(crate) key: Option<String>,
    /// What happens if a job has the key: keep, replace or reject.
    #[arg(long, value_parser = choice::<IfExists>, requires = "key")]
    pub(crate) if_exists: Option<IfExists>,
    /// How long the finished job stays with its result.
    #[arg(long)]
    pub(crate) retain: Option<DurationMs>,
    /// After how many failures the job is dead.
    #[arg(long)]
    pub(crate) max_attempts: Option<u16>,
    /// An attribute of the job. May be repeated.
    #[arg(long = "attr", value_name = "NAME=VALUE", value_parser = attribute)]
    pub(crate) attributes: Vec<(String, String)>,
}

/// A job of a queue.
#[derive(Debug, Args)]
pub(crate) struct JobArguments {
    /// The queue.
    pub(crate) queue: String,
    /// The id of the job, or key:KEY.
    pub(crate) job: String,
}

/// What is done with many jobs.
#[derive(Debug, Args)]
pub(crate) struct ActArguments {
    /// The queue.
    pub(crate) queue: String,
    /// What to do: cancel, promote, change, respawn or purge.
    #[arg(value_parser = choice::<ActName>)]
    pub(crate) act: ActName,
    #[command(flatten)]
    pub(crate) filter: FilterArguments,
    /// Counts the jobs and changes none.
    #[arg(long)]
    pub(crate) dry_run: bool,
    /// With respawn: how many jobs become due each second. Default: all at once.
    #[arg(long, value_parser = rate)]
    pub(crate) rate: Option<JobsPerSecond>,
    /// With cancel: what happens to jobs that workers hold: refuse, ask or revoke.
    #[arg(long, value_parser = choice::<IfRunning>)]
    pub(crate) running: Option<IfRunning>,
    /// With change: when the jobs are due, from now on.
    #[arg(long, conflicts_with = "run_at")]
    pub(crate) delay: Option<DurationMs>,
    /// With change: when the jobs are due.
    #[arg(long)]
    pub(crate) run_at: Option<Timestamp>,
}

#[derive(Debug, Subcommand)]
pub(crate) enum JobCommand {
    /// Lists jobs of a queue.
    Ls {
        /// The queue.
        queue: String,
        #[command(flatten)]
        filter: FilterArguments,
        /// How many at most.
        #[arg(long, default_value_t = 100)]
        limit: usize,
    },
    /// Does something with all jobs that match the flags. It may be interrupted, and repeated: no job is changed twice.
    Act(ActArguments),
    /// Says why a job does not run.
    Explain(JobArguments),
    /// Shows a job without its payload.
    Show(JobArguments),
    /// Writes the payload of a job to the standard output.
    Payload(JobArguments),
    /// Writes the result of a job to the standard output.
    Result {
        #[command(flatten)]
        job: JobArguments,
        /// How long to wait for the job to be done.
        #[arg(long, default_value = "0s")]
        wait: DurationMs,
    },
    /// Changes when a waiting job is due.
    #[command(group = clap::ArgGroup::new("time").required(true).args(["delay", "run_at"]))]
    Change {
        #[command(flatten)]
        job: JobArguments,
        /// When the job is due, from now on.
        #[arg(long)]
        delay: Option<DurationMs>,
        /// When the job is due: 2027-01-01T00:00:00Z.
        #[arg(long)]
        run_at: Option<Timestamp>,
    },
    /// Makes a delayed job ready now.
    Promote(JobArguments),
    /// Deletes a job.
    Cancel {
        #[command(flatten)]
        job: JobArguments,
        /// What happens if a worker holds the job: refuse, ask or revoke.
        #[arg(long, default_value = "refuse", value_parser = choice::<IfRunning>)]
        running: IfRunning,
    },
}

#[derive(Debug, Subcommand)]
pub(crate) enum QueueCommand {
    /// Lists the queues of the namespace with their numbers of jobs.
    Ls,
    /// Shows the numbers of jobs of a queue.
    Show {
        /// The queue.
        queue: String,
    },
    /// Shows the policy of a queue.
    Policy {
        /// The queue.
        queue: String,
    },
    /// Stops the delivery of jobs. Publishes are accepted.
    Pause {
        /// The queue.
        queue: String,
    },
    /// Continues the delivery of jobs.
    Resume {
        /// The queue.
        queue: String,
    },
    /// Rejects publishes. Jobs are delivered.
    Close {
        /// The queue.
        queue: String,
    },
    /// Accepts publishes again.
    Open {
        /// The queue.
        queue: String,
    },
    /// Deletes all ready jobs.
    Purge {
        /// The queue.
        queue: String,
    },
}

#[derive(Debug, Subcommand)]
pub(crate) enum DeadCommand {
    /// Lists dead jobs, the oldest first, with their last errors.
    Ls {
        /// The queue.
        queue: String,
        /// Only those whose last error contains this.
        #[arg(long)]
        error: Option<FilterText>,
        /// How many at most.
        #[arg(long, default_value_t = 100)]
        limit: usize,
    },
    /// Makes dead jobs ready again, oldest first, with all their attempts.
    Respawn {
        /// The queue.
        queue: String,
        /// How many at most. Default: all. Those with a certain error: tidegate job act QUEUE respawn --error TEXT.
        #[arg(long)]
        limit: Option<u64>,
        /// How many become due each second. Default: all at once.
        #[arg(long, value_parser = rate)]
        rate: Option<JobsPerSecond>,
    },
    /// Deletes all dead jobs.
    Rm {
        /// The queue.
        queue: String,
    },
}

#[derive(Debug, Subcommand)]
pub(crate) enum KeyCommand {
    /// Creates an API key of the namespace, and prints its secret: only now, since the server stores a hash.
    New {
        /// What it is for, for people.
        description: String,
        /// What it allows: publish, consume, read or admin. May be repeated, or have several with commas.
        #[arg(long = "scope", required = true, value_delimiter = ',', value_parser = choice::<KeyScope>)]
        scopes: Vec<KeyScope>,
        /// When it expires: 2027-01-01T00:00:00Z. Default: never.
        #[arg(long)]
        expires_at: Option<Timestamp>,
    },
    /// Lists the API keys of the namespace, without their secrets.
    Ls,
    /// Revokes an API key. Servers reject it within a second.
    Revoke {
        /// Its id, as in the list; the secret has it in the middle: tg_ID_….
        id: String,
    },
}

fn rate(text: &str) -> Result<JobsPerSecond, String> {
    let number: u64 = text.parse().map_err(|_| "write a whole number")?;
    JobsPerSecond::try_from(number).map_err(|invalid| invalid.detail)
}

fn attribute(text: &str) -> Result<(String, String), String> {
    let (name, value) = text
        .split_once('=')
        .ok_or("write the attribute as NAME=VALUE")?;
    Ok((name.to_owned(), value.to_owned()))
}
