//! Whole queues.

use clap::Subcommand;

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
