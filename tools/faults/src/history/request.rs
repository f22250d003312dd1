//! Requests of clients, of either wire.

use serde::{Deserialize, Serialize};
use tidegate_core::IfRunning;
use tidegate_core::v1::consume::SettleCall;

use super::time::UnixMicros;
use super::version_spec::VersionSpec;

/// The wire of a request.
#[derive(
    Debug, Clone, Copy, Default, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize,
)]
pub enum Wire {
    /// `/api`, as lmstfy has it.
    #[default]
    Lmstfy,
    /// `/v1`.
    Native,
}

/// The form of a publish request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum PublishMode {
    /// One version, which is the body of the request.
    Single,
    /// Several versions; each has a result.
    Batch,
    /// Several versions, all or none.
    Atomic,
}

/// How a request names a job.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum JobAddress {
    Id(String),
    /// By the number of its key.
    Key(u32),
}

/// A delivery that a client settles.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct HeldJob {
    /// The number of the queue.
    pub queue: u16,
    /// The id of the job.
    pub id: String,
    /// The attempt; `None` on the lmstfy wire, where an ack names the id only.
    pub attempt: Option<u32>,
    /// Its lease, or on the lmstfy wire its id, as the server wrote it.
    pub lease: String,
    /// The number of the delivered version.
    pub number: u64,
}

/// The end that a client gives its deliveries.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum SettleAction {
    /// Reports that the jobs are done, with a [`super::RunResult`] of each.
    Ack,
    /// Reports failures. The jobs are retried as configured.
    Fail,
    /// Reports failures. The jobs are retried after this time, in µs.
    FailRetryIn(u64),
    /// Reports failures after which the jobs are dead.
    FailDead,
    /// Extends the leases to this time from now on, in µs.
    Touch(u64),
    /// Gives the jobs back. They are due after this time, in µs.
    Release(u64),
}

impl SettleAction {
    /// Returns its request.
    #[must_use]
    pub const fn call(self) -> SettleCall {
        match self {
            Self::Ack => SettleCall::Ack,
            Self::Fail | Self::FailRetryIn(_) | Self::FailDead => SettleCall::Fail,
            Self::Touch(_) => SettleCall::Touch,
            Self::Release(_) => SettleCall::Release,
        }
    }
}

/// A request of a client. Queues are named by their numbers.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum ClientRequest {
    /// Publish to a queue. Outcome: `Published`, or `Ended` if the publisher waits.
    Publish {
        queue: u16,
        /// The form.
        mode: PublishMode,
        versions: Vec<VersionSpec>,
        /// The id of a job that is deleted in the same step: a republish of the lmstfy wire.
        replaced: Option<String>,
    },
    /// Reserve jobs. Outcome: `Delivered`.
    Reserve {
        queues: Vec<u16>,
        /// The length of leases, in µs; `None` = the length that each job has.
        lease: Option<u64>,
        /// The largest number of jobs.
        max_jobs: u64,
    },
    /// Settle deliveries. Outcome: `Settled`.
    Settle {
        /// The end that the client gives them.
        action: SettleAction,
        /// The deliveries.
        jobs: Vec<HeldJob>,
    },
    /// Cancel a job. Outcome: `Cancelled`.
    Cancel {
        queue: u16,
        job: JobAddress,
        /// The effect on a running job.
        running: IfRunning,
    },
    /// Change when a job is due. Outcome: `Due`.
    Change {
        queue: u16,
        job: JobAddress,
        /// Its new delay, in µs.
        delay: u64,
        /// When it is due, in place of the delay.
        run_at: Option<UnixMicros>,
    },
    /// Make a job ready. Outcome: `Due`.
    Promote { queue: u16, job: JobAddress },
    /// Show a job. Outcome: `Shown`, or on the lmstfy wire, whose name is peek, `Peeked`.
    Show { queue: u16, job: JobAddress },
    /// Read the result of a job that is done. Outcome: `Ended`.
    Result {
        queue: u16,
        job: JobAddress,
        /// The number of the version that was published.
        version: u64,
    },
    /// Peek at the oldest ready job of a queue. Outcome: `Peeked`.
    PeekReady { queue: u16 },
    /// Read the dead letter of a queue. Outcome: `DeadLetter`.
    PeekDead { queue: u16 },
    /// Delete the ready jobs of a queue. Outcome: `Deleted`.
    PurgeReady { queue: u16 },
    /// Delete the oldest dead jobs of a queue. Outcome: `Deleted`.
    PurgeDead {
        queue: u16,
        /// The largest number of jobs to delete.
        limit: u64,
    },
    /// Respawn the oldest dead jobs of a queue, with one try each and without a time to live. Outcome: `Respawned`.
    Respawn {
        queue: u16,
        /// The largest number of jobs to respawn.
        limit: u64,
    },
    /// Delete a token. Outcome: `Deleted`.
    Revoke {
        /// The number of the token: [`super::Operation::token`].
        token: u16,
    },
}

impl ClientRequest {
    #[must_use]
    pub fn publish(queue: u16, version: VersionSpec) -> Self {
        Self::Publish {
            queue,
            mode: PublishMode::Single,
            versions: vec![version],
            replaced: None,
        }
    }

    /// Returns a request that settles one delivery.
    #[must_use]
    pub fn settle(action: SettleAction, job: HeldJob) -> Self {
        let jobs = vec![job];
        Self::Settle { action, jobs }
    }

    /// Returns the queues that it names. Empty for a revocation, and if they are not known.
    #[must_use]
    pub fn queues(&self) -> &[u16] {
        match self {
            Self::Publish { queue, .. }
            | Self::Cancel { queue, .. }
            | Self::Change { queue, .. }
            | Self::Promote { queue, .. }
            | Self::Show { queue, .. }
            | Self::Result { queue, .. }
            | Self::PeekReady { queue }
            | Self::PeekDead { queue }
            | Self::PurgeReady { queue }
            | Self::PurgeDead { queue, .. }
            | Self::Respawn { queue, .. } => std::slice::from_ref(queue),
            Self::Reserve { queues, .. } => queues,
            Self::Settle { jobs, .. } => match jobs.as_slice() {
                [one] => std::slice::from_ref(&one.queue),
                // They may be on several servers.
                _ => &[],
            },
            Self::Revoke { .. } => &[],
        }
    }

    /// Returns the queue and the job of a request that edits or shows one job.
    #[must_use]
    pub const fn job(&self) -> Option<(u16, &JobAddress)> {
        match self {
            Self::Cancel { queue, job, .. }
            | Self::Change { queue, job, .. }
            | Self::Promote { queue, job }
            | Self::Show { queue, job } => Some((*queue, job)),
            _ => None,
        }
    }

    /// Whether it stores something.
    #[must_use]
    pub const fn stores(&self) -> bool {
        matches!(
            self,
            Self::Publish { .. } | Self::Respawn { .. } | Self::Revoke { .. }
        )
    }

    /// Returns its name.
    #[must_use]
    pub const fn verb(&self) -> &'static str {
        match self {
            Self::Publish { .. } => "publish",
            Self::Reserve { .. } => "reserve",
            Self::Settle { action, .. } => action.call().name(),
            Self::Cancel { .. } => "cancel",
            Self::Change { .. } => "change",
            Self::Promote { .. } => "promote",
            Self::Show { .. } => "show",
            Self::Result { .. } => "result",
            Self::PeekReady { .. } => "peek",
            Self::PeekDead { .. } => "peek-dead",
            Self::PurgeReady { .. } => "purge",
            Self::PurgeDead { .. } => "purge-dead",
            Self::Respawn { .. } => "respawn",
            Self::Revoke { .. } => "revoke",
        }
    }
}
