//! Why a job is where it is.

use serde::{Deserialize, Serialize};

use crate::v1::values::{JobKey, Timestamp, WorkerNameText};
use crate::{JobId, JobState, QueueName};

/// Why a job is not delivered now, or why it is not delivered any more.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "snake_case")]
pub enum JobCause {
    /// It is not due yet.
    NotDue,
    /// An attempt has failed, and the next attempt is not due yet.
    RetryNotDue,
    /// It is due, and its timer has not been moved yet: the pump has a backlog, or Redis is slow.
    Overdue,
    /// It is due, and no pump runs that could move its timer.
    NoPump,
    /// Its queue is paused.
    Paused,
    /// Workers hold as many jobs of its queue, or of its lane, as its policy allows at a time.
    RunningLimit,
    /// Workers hold as many jobs of its group as the policy of its queue allows at a time.
    GroupFull,
    /// As many jobs of its queue were delivered as the rate in its policy allows.
    RateLimited,
    /// As many jobs were delivered as the limit allows that its queue shares with others.
    LimitFull,
    /// No worker waits for its queue, or holds a job of it.
    NoWorker,
    /// Jobs of a higher priority are before it.
    PriorityBehind,
    /// Other jobs are before it, or may be.
    BehindOthers,
    /// It is the next job of its queue or of its lane.
    Next,
    /// A worker holds it.
    Held,
    /// It has failed as often as it may.
    DeadByFailures,
    /// Too many workers were lost while they held it.
    DeadByLosses,
    /// A worker said that no attempt can succeed.
    DeadForGood,
    /// Its record or its payload is damaged. A payload of more than 4 KiB is checked when the job is delivered.
    Unreadable,
    /// Its payload is in the cold tier, and cannot be read from there now. It is due again within a minute.
    PayloadUnavailable,
    /// It is done.
    Done,
}

/// The subject of a fact about a job.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "snake_case")]
pub enum FactCode {
    /// When it is due.
    Due,
    /// When its lease ends.
    LeaseEnds,
    /// The worker that holds it, if it has given its name, and since when.
    HeldBy,
    /// When it is dropped: unless a worker has started it, or in any case if it was published on the lmstfy wire.
    Expires,
    /// How many jobs of its priority are before it in its lane; without a number if not all of them were counted.
    Ahead,
    /// How many jobs of a higher priority are before it in its lane.
    HigherPriority,
    /// How many other groups take turns with its group: with groups, jobs are only before it if they are of its own.
    Turns,
    /// How many jobs of its queue workers hold, in its lane.
    Running,
    /// How many jobs of its group workers hold, in its lane.
    GroupRunning,
    /// How many jobs its queue delivers in a time, and when the next one is possible if that is later than now.
    Rate,
    /// The same for the limit that its queue shares with others.
    Limit,
    /// Its queue is paused.
    QueuePaused,
    /// Its queue takes no new jobs.
    QueueClosed,
    /// No pump runs for its bucket: no job there becomes due.
    PumpMissing,
    /// Its payload is in the cold tier.
    Payload,
    /// How many attempts have failed.
    Failures,
    /// How often a worker was lost while it held the job.
    Losses,
    /// Its last error.
    LastError,
    /// Its producer wants it cancelled when this attempt ends.
    CancelRequested,
    /// Until when it is kept with its key.
    KeptUntil,
}

/// One thing that is known of a job.
#[serde_with::skip_serializing_none]
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct JobFact {
    /// Its subject.
    pub code: FactCode,
    /// A sentence.
    pub text: String,
    /// The time in it.
    pub at: Option<Timestamp>,
    /// The worker in it.
    pub worker: Option<WorkerNameText>,
    /// The number in it.
    pub count: Option<u64>,
}

/// Why a job is where it is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct JobExplanation {
    /// Its id.
    pub id: JobId,
    /// Its queue.
    pub queue: QueueName,
    /// Its key, if it has one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key: Option<JobKey>,
    /// Its state.
    pub state: JobState,
    /// Why it is not delivered now.
    pub cause: JobCause,
    /// The cause in one sentence, and the remedy if there is one.
    pub summary: String,
    /// Further facts about it.
    pub facts: Vec<JobFact>,
}
