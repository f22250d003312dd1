//! The replies of the calls that publish jobs.

use tidegate_core::v1::publish::PublishResult;
use tidegate_core::{JobId, JobState};

use crate::error::StoreError;
use crate::until_durable::Receipt;

/// The reply to a publish that Redis has executed.
#[derive(Debug, Clone)]
#[must_use]
pub enum PublishReply {
    /// The jobs are stored, or refused one by one.
    Done {
        /// The result of each job, in their order.
        jobs: Vec<Result<StoredJob, PublishRefusal>>,
        /// For [`crate::Store::until_durable`].
        receipt: Receipt,
    },
    /// A job prevents a call that was to store all jobs or none. Nothing was stored.
    Refused {
        /// The index of the first such job.
        index: usize,
        refusal: PublishRefusal,
    },
    /// The lane would have more jobs than it may. Nothing was stored.
    QueueFull {
        /// How many jobs could be stored; fewer than were to be published.
        room: u64,
    },
    /// The lane is closed. Nothing was stored.
    LaneClosed,
}

impl PublishReply {
    /// The reply to each of several requests whose jobs, this many each, were published by one call.
    #[must_use]
    pub fn split(self, counts: &[usize]) -> Vec<Self> {
        let Self::Done { jobs, receipt } = self else {
            return vec![self; counts.len()];
        };
        let mut jobs = jobs.into_iter();
        let of_request = |count: &usize| Self::Done {
            jobs: jobs.by_ref().take(*count).collect(),
            receipt: receipt.clone(),
        };
        counts.iter().map(of_request).collect()
    }

    /// The jobs, if all are stored.
    #[must_use]
    pub fn stored(self) -> Option<Vec<StoredJob>> {
        match self {
            Self::Done { jobs, .. } => jobs.into_iter().map(Result::ok).collect(),
            _ => None,
        }
    }
}

/// A job after it was published.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StoredJob {
    /// The effect of the publish; of a repeated request `Created`.
    pub outcome: PublishResult,
    /// Whether the request was made before, and changed nothing.
    pub replayed: bool,
    /// The job that has the content or the key now.
    pub id: JobId,
    /// The state it is in; `None` if a repeated request stands for a job that is gone.
    pub state: Option<JobState>,
    /// When it is due next, in ms since 1970; `None` if it is done or gone, or a consumer holds it and it will not run
    /// again.
    pub run_at_ms: Option<u64>,
}

impl StoredJob {
    /// Whether the job is delayed, ready or leased.
    pub const fn is_unfinished(&self) -> bool {
        matches!(
            self.state,
            Some(JobState::Delayed | JobState::Ready | JobState::Leased)
        )
    }
}

/// Why a job was not stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PublishRefusal {
    /// There is a job with its key.
    KeyTaken,
    /// Its idempotency key stands for another request.
    KeyReused,
    /// The queue has as many jobs as it may have.
    QueueFull,
    /// The queue takes no jobs.
    QueueClosed,
    /// The lane was asked, and has this job with its key. It is done, and to be replaced: [`crate::Store::replace_done`]
    /// takes the key from it once another lane has stored the new job.
    IsDone(JobId),
}

/// What a script reports of a repeated request.
pub(super) const REPLAYED: u64 = 6;

/// What a script reports with this number, as its contract says.
pub(super) fn read_outcome(
    number: u64,
) -> Result<Result<PublishResult, PublishRefusal>, StoreError> {
    Ok(match number {
        1 | REPLAYED => Ok(PublishResult::Created),
        2 => Ok(PublishResult::Exists),
        3 => Ok(PublishResult::Rerun),
        4 => Ok(PublishResult::Replaced),
        5 => Ok(PublishResult::Revived),
        7 => Err(PublishRefusal::KeyTaken),
        8 => Err(PublishRefusal::KeyReused),
        9 => Err(PublishRefusal::QueueFull),
        10 => Err(PublishRefusal::QueueClosed),
        _ => {
            let error = format!("script returned the unknown outcome {number}");
            return Err(StoreError::corrupt(error));
        }
    })
}

impl StoredJob {
    /// A new job without a key. Its due time follows from its id, which has the clock of Redis.
    pub(super) fn created(id: JobId, delay_ms: u64, run_at_ms: Option<u64>) -> Self {
        let now_ms = id.created_at_ms();
        let due_ms = match run_at_ms {
            Some(run_at_ms) => run_at_ms.max(now_ms),
            None if delay_ms == 0 => now_ms,
            // Delays count from the end of the millisecond in which the job is stored.
            None => now_ms + 1 + delay_ms,
        };
        let state = match due_ms > now_ms {
            true => JobState::Delayed,
            false => JobState::Ready,
        };
        Self {
            outcome: PublishResult::Created,
            replayed: false,
            id,
            state: Some(state),
            run_at_ms: Some(due_ms),
        }
    }
}
