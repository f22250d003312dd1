//! Outcomes of requests, as their clients know them.

use serde::{Deserialize, Serialize};
use tidegate_core::JobState;
use tidegate_core::v1::consume::Outcome;
use tidegate_core::v1::publish::PublishResult;

use super::request::HeldJob;
use super::time::UnixMicros;

/// The status of an answer by which the jobs are stored, but their durability was not confirmed in time.
pub const NOT_CONFIRMED: u16 = 504;

/// The reason in [`RequestOutcome::Unknown`] if the client gave up.
pub const HUNG_UP: &str = "hung up";

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum RequestOutcome {
    Published(Vec<VersionResult>),
    /// The job for whose end the publisher waited has ended.
    Ended {
        id: String,
        /// How.
        end: JobEndAnswer,
    },
    /// These jobs were reserved; empty if there were none.
    Delivered(Vec<Delivery>),
    /// This job was peeked at; its lease has no length.
    Peeked(Box<Delivery>),
    Shown(Box<ShownJob>),
    /// The outcome of each delivery.
    Settled(Vec<Outcome>),
    /// The job was cancelled, or not.
    Cancelled {
        id: String,
        /// The effect of the cancel.
        effect: CancelEffect,
    },
    /// The job is due at this time.
    Due {
        id: String,
        /// When it is due.
        run_at: UnixMicros,
    },
    /// The id of the oldest dead job of a queue, if there is one.
    DeadLetter(Option<String>),
    /// All jobs that a purge covers were deleted, or the token was.
    Deleted,
    /// This number of dead jobs was respawned.
    Respawned(u64),
    /// There is no such job.
    NotFound,
    /// The job is running or dead; nothing was done.
    Conflict,
    /// The request failed with this status. It may have been carried out.
    Failed(u16),
    /// The request was rejected with this status. It was not carried out.
    Refused(u16),
    /// The connection was refused. The request was not carried out.
    NotSent,
    /// No answer came, for this reason. The request may have been carried out.
    Unknown(String),
}

impl RequestOutcome {
    /// Whether it is unknown if the request was carried out.
    #[must_use]
    pub const fn is_unknown(&self) -> bool {
        matches!(self, Self::Failed(_) | Self::Unknown(_))
    }

    /// Whether the request was certainly not carried out.
    #[must_use]
    pub const fn is_refused(&self) -> bool {
        matches!(self, Self::NotSent | Self::Refused(_))
    }
}

/// The result of a published version.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum VersionResult {
    /// There is a job.
    Job {
        id: String,
        /// The effect of the publish.
        outcome: PublishResult,
        state: JobState,
        /// When it is due next, if the answer shows it.
        run_at: Option<UnixMicros>,
        /// Whether an earlier request with the same idempotency key was carried out.
        is_replayed: bool,
    },
    /// Nothing was stored.
    Refused(u16),
    /// It failed with this status. Something may have been stored.
    Failed(u16),
}

impl VersionResult {
    /// Returns the id of the job.
    #[must_use]
    pub fn id(&self) -> Option<&str> {
        match self {
            Self::Job { id, .. } => Some(id),
            Self::Refused(_) | Self::Failed(_) => None,
        }
    }
}

/// A job in an answer. Times are by the clock of Redis, truncated to ms.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Delivery {
    /// The number of its version, if payload and attributes are exactly as they were published under that number.
    pub number: Option<u64>,
    /// Its id, without the digit that marks a version on the lmstfy wire.
    pub id: String,
    /// The number of its key.
    pub key: Option<u32>,
    /// The number of its queue.
    pub queue: u16,
    /// The attempt; `None` on the lmstfy wire.
    pub attempt: Option<u32>,
    /// How often it has failed; `None` on the lmstfy wire.
    pub failures: Option<u32>,
    /// Tries left after this delivery; `None` on the native API.
    pub tries_left: Option<u64>,
    /// When it was created; `None` on the native API.
    pub created: Option<UnixMicros>,
    /// When it was due; `None` on the lmstfy wire.
    pub run_at: Option<UnixMicros>,
    /// When its lease began, or when it was peeked at.
    pub reserved: UnixMicros,
    /// When its lease ends.
    pub lease_until: UnixMicros,
    /// Its lease, or on the lmstfy wire its id, as the server wrote it.
    pub lease: String,
}

impl Delivery {
    /// Returns it as a client settles it; `None` if its content is not what was published.
    #[must_use]
    pub fn held(self) -> Option<HeldJob> {
        Some(HeldJob {
            number: self.number?,
            queue: self.queue,
            id: self.id,
            attempt: self.attempt,
            lease: self.lease,
        })
    }
}

/// How a job has ended, as a publisher is answered that waits for that.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum JobEndAnswer {
    /// It is done, with the result of this run.
    Result(RunResult),
    /// It is done, with a result that no worker returns.
    Foreign,
    /// It is done, without a result.
    NoResult,
    Dead,
    /// It does not exist.
    Gone,
}

/// The result that a worker returns: which run it was.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RunResult {
    /// The id of the job.
    pub id: String,
    pub attempt: u32,
    /// The number of the delivered version.
    pub number: u64,
}

/// The effect of a cancel.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum CancelEffect {
    /// It deleted the job, which was in this state.
    Deleted(JobState),
    /// The job is deleted when its run ends, unless it is done.
    Requested,
    /// It deleted a running job.
    Revoked,
    /// The job was done.
    AlreadyDone,
    /// The job is gone, whether it existed or not, as the lmstfy wire says.
    Gone,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ShownJob {
    pub id: String,
    pub state: JobState,
    /// The last attempt.
    pub attempt: u32,
    /// How often it has failed.
    pub failures: u32,
    /// How often its worker was lost.
    pub losses: u32,
    /// Whether it died because its workers were lost.
    pub died_of_losses: bool,
}
