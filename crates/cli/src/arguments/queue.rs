//! Whole queues.

use clap::Subcommand;
use tidegate::RateChange;
use tidegate::api::FieldChange;
use tidegate::api::problem::InvalidValue;
use tidegate::api::values::LimitNameText;

use super::rate::rate;

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
    /// Limits how many jobs are delivered in a time.
    Rate {
        /// The queue.
        queue: String,
        /// The number of jobs and the time, such as 100/1s or 10/1m, or `none` for no limit.
        #[arg(value_parser = rate_change)]
        rate: FieldChange<RateChange>,
    },
    /// Shares a limit of the namespace with other queues. `tidegate limit set` creates it.
    Limit {
        /// The queue.
        queue: String,
        /// The limit, or `none`.
        #[arg(value_parser = limit_change)]
        limit: FieldChange<LimitNameText>,
    },
    /// Deletes all ready jobs.
    Purge {
        /// The queue.
        queue: String,
    },
}

fn rate_change(text: &str) -> Result<FieldChange<RateChange>, String> {
    match text {
        "none" => Ok(FieldChange::Reset),
        text => Ok(FieldChange::Set(rate(text)?.into())),
    }
}

fn limit_change(text: &str) -> Result<FieldChange<LimitNameText>, String> {
    match text {
        "none" => Ok(FieldChange::Reset),
        name => name
            .parse()
            .map(FieldChange::Set)
            .map_err(|invalid: InvalidValue| invalid.detail),
    }
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
