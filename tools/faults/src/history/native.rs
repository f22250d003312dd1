//! Requests of the native API, `/v1`, and their answers, with what the judge needs.

use serde::{Deserialize, Serialize};
use tidegate_core::v1::consume::{Outcome, SettleCall};
use tidegate_core::v1::publish::PublishResult;
use tidegate_core::{IfExists, IfRunning, JobState};

use super::job::JobParameters;
use super::time::UnixMicros;

/// What a publish requests to store: a job, or a version of the job that has its key. Its payload begins with its
/// number.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct VersionSpec {
    /// Its number, content, delay, and in `tries` the failures after which it is dead; 0 = as in the policy.
    pub terms: JobParameters,
    /// When it is due, in place of a delay.
    pub run_at: Option<UnixMicros>,
    /// The number of its key.
    pub key: Option<u32>,
    /// What happens to a job with its key.
    pub if_exists: IfExists,
    /// The length of its lease, in µs; 0 = as in the policy.
    pub lease: u64,
    /// The delays before its retries; `None` = as in the policy.
    pub retry: Option<RetryTimes>,
    /// How long it keeps its key after it is done, in µs.
    pub retain: u64,
    /// The number of the idempotency key of the request, which may be repeated.
    pub idempotency_key: Option<u64>,
    /// How long the publisher waits for the end of the job, in µs.
    #[serde(default)]
    pub wait: u64,
}

/// The delays before the retries of a job. The last one repeats.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RetryTimes {
    /// In µs.
    pub delays: Vec<u64>,
    /// By how many thousandths each is longer or shorter.
    pub jitter: u64,
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
    /// By its id.
    Id(String),
    /// By the number of its key.
    Key(u32),
}

/// A delivery that a worker settles.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct HeldJob {
    /// The number of the queue.
    pub queue: u16,
    /// The id of the job.
    pub id: String,
    /// The attempt.
    pub attempt: u32,
    /// Its lease, as the server wrote it.
    pub lease: String,
    /// The number of the delivered version.
    pub number: u64,
}

/// What a worker does with its deliveries.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum SettleAction {
    /// Reports that the jobs are done, with a [`RunResult`] of each.
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

/// A request of the native API.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum NativeCall {
    /// Publish to a queue. Answer: `Published`.
    Publish {
        /// The number of the queue.
        queue: u16,
        /// Its form.
        mode: PublishMode,
        /// The versions.
        versions: Vec<VersionSpec>,
    },
    /// Reserve jobs. Answer: `Reserved`.
    Reserve {
        /// The numbers of the queues.
        queues: Vec<u16>,
        /// The length of leases, in µs; `None` = that of each job.
        lease: Option<u64>,
        /// The largest number of jobs.
        max_jobs: u64,
    },
    /// Settle deliveries. Answer: `Settled`.
    Settle {
        /// What the worker does with them.
        action: SettleAction,
        /// The deliveries.
        jobs: Vec<HeldJob>,
    },
    /// Cancel a job. Answer: `Cancelled`.
    Cancel {
        /// The number of its queue.
        queue: u16,
        /// The job.
        job: JobAddress,
        /// What happens if it is running.
        running: IfRunning,
    },
    /// Change when a job is due. Answer: `Due`.
    Change {
        /// The number of its queue.
        queue: u16,
        /// The job.
        job: JobAddress,
        /// Its new delay, in µs.
        delay: u64,
        /// When it is due, in place of the delay.
        run_at: Option<UnixMicros>,
    },
    /// Make a job ready. Answer: `Due`.
    Promote {
        /// The number of its queue.
        queue: u16,
        /// The job.
        job: JobAddress,
    },
    /// Show a job. Answer: `Shown`.
    Show {
        /// The number of its queue.
        queue: u16,
        /// The job.
        job: JobAddress,
    },
}

/// The answer to a request of the native API.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum NativeAnswer {
    /// The result of each version.
    Published(Vec<VersionResult>),
    /// These jobs were reserved.
    Reserved(Vec<ReservedVersion>),
    /// The outcome of each delivery.
    Settled(Vec<Outcome>),
    /// The job was cancelled, or not.
    Cancelled {
        /// Its id.
        id: String,
        /// What the cancel did.
        effect: CancelEffect,
    },
    /// The job is due at this time.
    Due {
        /// Its id.
        id: String,
        /// When it is due.
        run_at: UnixMicros,
    },
    /// The job was shown.
    Shown(Box<ShownVersion>),
    /// There is no such job.
    NotFound,
    /// The job is running or dead; nothing was done.
    Conflict,
    /// The job for whose end the publisher waited has ended.
    Ended {
        /// Its id.
        id: String,
        /// How.
        end: JobEndAnswer,
    },
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
    /// It is dead.
    Dead,
    /// It does not exist.
    Gone,
}

/// The result that a worker returns: which run it was.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RunResult {
    /// The id of the job.
    pub id: String,
    /// The attempt.
    pub attempt: u32,
    /// The number of the delivered version.
    pub number: u64,
}

/// The result of a published version.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum VersionResult {
    /// There is a job.
    Job {
        /// Its id.
        id: String,
        /// What the publish did.
        outcome: PublishResult,
        /// Its state.
        state: JobState,
        /// When it is due next, if it is.
        run_at: Option<UnixMicros>,
        /// Whether an earlier request with the same idempotency key was carried out.
        is_replayed: bool,
    },
    /// Nothing was stored.
    Refused(u16),
    /// It failed with this status. Something may have been stored.
    Failed(u16),
}

/// A job in the answer to a reserve call.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReservedVersion {
    /// The number of its version, if payload and attributes are exactly those that were published under that number.
    pub number: Option<u64>,
    /// Its id.
    pub id: String,
    /// The number of its key.
    pub key: Option<u32>,
    /// The number of its queue.
    pub queue: u16,
    /// The attempt.
    pub attempt: u32,
    /// Its lease, as the server wrote it.
    pub lease: String,
    /// How often it has failed.
    pub failures: u32,
    /// When it was due.
    pub run_at: UnixMicros,
    /// When its lease began, by the clock of Redis, truncated to ms.
    pub reserved: UnixMicros,
    /// When its lease ends, by the same clock.
    pub lease_until: UnixMicros,
}

/// What a cancel did.
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
}

/// A job as it was shown.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ShownVersion {
    /// Its id.
    pub id: String,
    /// Its state.
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

impl NativeCall {
    /// Returns the queues that it names.
    #[must_use]
    pub fn queues(&self) -> &[u16] {
        match self {
            Self::Publish { queue, .. }
            | Self::Cancel { queue, .. }
            | Self::Change { queue, .. }
            | Self::Promote { queue, .. }
            | Self::Show { queue, .. } => std::slice::from_ref(queue),
            Self::Reserve { queues, .. } => queues,
            Self::Settle { jobs, .. } => match jobs.as_slice() {
                [one] => std::slice::from_ref(&one.queue),
                // They may be on several servers.
                _ => &[],
            },
        }
    }

    /// Returns the queue and the job of a request about one job; `None` for a publish, a reserve and a settle.
    #[must_use]
    pub const fn job(&self) -> Option<(u16, &JobAddress)> {
        match self {
            Self::Cancel { queue, job, .. }
            | Self::Change { queue, job, .. }
            | Self::Promote { queue, job }
            | Self::Show { queue, job } => Some((*queue, job)),
            Self::Publish { .. } | Self::Reserve { .. } | Self::Settle { .. } => None,
        }
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
        }
    }
}
