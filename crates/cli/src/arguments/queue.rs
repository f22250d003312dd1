//! Whole queues.

use clap::Subcommand;
use tidegate::api::FieldChange;

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
    /// Limits how many jobs are leased at a time, of the queue or of each of its groups.
    MaxRunning {
        /// The queue.
        queue: String,
        /// The number of jobs, or `none` for no limit.
        #[arg(value_name = "JOBS", value_parser = running_limit)]
        jobs: FieldChange<u64>,
        /// Limits the jobs of each group: with 1, they run one after the other.
        #[arg(long)]
        per_group: bool,
    },
    /// Deletes all ready jobs.
    Purge {
        /// The queue.
        queue: String,
    },
}

fn running_limit(text: &str) -> Result<FieldChange<u64>, String> {
    match text {
        "none" => Ok(FieldChange::Reset),
        number => match number.parse() {
            Ok(jobs @ 1..) => Ok(FieldChange::Set(jobs)),
            _ => Err("write a whole number from 1, or none".to_owned()),
        },
    }
}
