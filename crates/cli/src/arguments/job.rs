//! Commands for a job, for all jobs that match a filter, and for dead jobs.

use clap::{Args, Subcommand};
use tidegate::api::job::ActName;
use tidegate::api::values::{FilterText, JobsPerSecond, Priority};
use tidegate::{DurationMs, IfRunning, Timestamp};

use super::choice::choice;
use super::filter::FilterArguments;

/// A job of a queue.
#[derive(Debug, Args)]
pub(crate) struct JobArguments {
    /// The queue.
    pub(crate) queue: String,
    /// The id of the job, or key:KEY.
    pub(crate) job: String,
}

/// A verb for many jobs.
#[derive(Debug, Args)]
pub(crate) struct ActArguments {
    /// The queue.
    pub(crate) queue: String,
    /// The verb: cancel, promote, change, respawn or purge.
    #[arg(value_parser = choice::<ActName>)]
    pub(crate) act: ActName,
    #[command(flatten)]
    pub(crate) filter: FilterArguments,
    /// Counts the jobs and changes none.
    #[arg(long)]
    pub(crate) dry_run: bool,
    /// With respawn: jobs that become due each second. Default: all at once.
    #[arg(long, value_parser = rate)]
    pub(crate) rate: Option<JobsPerSecond>,
    /// With cancel, for jobs that workers hold: refuse, ask or revoke.
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
        /// The most jobs.
        #[arg(long, default_value_t = 100)]
        limit: usize,
    },
    /// Applies a verb to all jobs that match the flags. It may be interrupted, and repeated: no job is changed twice.
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
        /// The longest wait for the end of the job.
        #[arg(long, default_value = "0s")]
        wait: DurationMs,
    },
    /// Changes when a waiting job is due, or its priority.
    #[command(group = clap::ArgGroup::new("changed").required(true).multiple(true).args(["delay", "run_at", "priority"]))]
    Change {
        #[command(flatten)]
        job: JobArguments,
        /// When the job is due, from now on.
        #[arg(long)]
        delay: Option<DurationMs>,
        /// When the job is due: 2027-01-01T00:00:00Z.
        #[arg(long, conflicts_with = "delay")]
        run_at: Option<Timestamp>,
        /// The priority, 0 to 4: 4 is delivered first.
        #[arg(long, value_parser = priority)]
        priority: Option<Priority>,
    },
    /// Makes a delayed job ready now.
    Promote(JobArguments),
    /// Deletes a job.
    Cancel {
        #[command(flatten)]
        job: JobArguments,
        /// If a worker holds the job: refuse, ask or revoke.
        #[arg(long, default_value = "refuse", value_parser = choice::<IfRunning>)]
        running: IfRunning,
    },
}

#[derive(Debug, Subcommand)]
pub(crate) enum DeadCommand {
    /// Lists dead jobs, the oldest first, with their last errors.
    Ls {
        /// The queue.
        queue: String,
        /// Only jobs whose last error contains this.
        #[arg(long)]
        error: Option<FilterText>,
        /// The most jobs.
        #[arg(long, default_value_t = 100)]
        limit: usize,
    },
    /// Makes dead jobs ready again, oldest first, with all their attempts (one, for jobs of the lmstfy wire).
    Respawn {
        /// The queue.
        queue: String,
        /// The most jobs. Default: all. For jobs with a certain error: tidegate job act QUEUE respawn --error TEXT.
        #[arg(long)]
        limit: Option<u64>,
        /// Jobs that become due each second. Default: all at once.
        #[arg(long, value_parser = rate)]
        rate: Option<JobsPerSecond>,
    },
    /// Deletes all dead jobs.
    Rm {
        /// The queue.
        queue: String,
    },
}

pub(super) fn priority(text: &str) -> Result<Priority, String> {
    let number = text.parse::<u64>().map_err(|_| "write a whole number")?;
    Priority::try_from(number).map_err(|invalid| invalid.detail)
}

fn rate(text: &str) -> Result<JobsPerSecond, String> {
    let number: u64 = text.parse().map_err(|_| "write a whole number")?;
    JobsPerSecond::try_from(number).map_err(|invalid| invalid.detail)
}
