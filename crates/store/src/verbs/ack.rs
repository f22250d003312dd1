use tidegate_core::{JobId, JobState, QueueKey};

use super::settle::{SettleVerb, Settled};
use crate::error::StoreError;
use crate::reply::Reply;
use crate::script::{LazyScript, script};
use crate::script_call::Call;
use crate::store::Store;

static ACK: LazyScript = script!("ack");

/// The outcome of an acknowledgement.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[must_use]
pub enum AckOutcome {
    /// The job is done: deleted, or kept for a while.
    Done {
        /// The state it was in.
        was: JobState,
        /// Time since the job was published, in ms.
        age_ms: u64,
    },
    /// This run is done. A newer version of the job, which waited for that, will run.
    Rerun {
        /// Time since the job was published, in ms.
        age_ms: u64,
    },
    /// There is no such job in this queue.
    AlreadyGone,
    /// The delivery no longer holds the job, which is unchanged.
    Lost,
}

/// An acknowledgement of a job.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AckRequest {
    /// The job.
    pub id: JobId,
    /// The delivery that is done; `None` = any delivery, in any state of the job. A job with a key must be leased.
    pub attempt: Option<u32>,
}

/// Acknowledging jobs; those that count failures and do not say how long they are kept are kept for this time, in ms.
struct Ack {
    retain_ms: u64,
}

impl SettleVerb for Ack {
    type Item = AckRequest;
    type Outcome = AckOutcome;

    const GONE: AckOutcome = AckOutcome::AlreadyGone;

    fn id(job: &AckRequest) -> JobId {
        job.id
    }

    fn add_options<'c>(&self, call: Call<'c>) -> Call<'c> {
        call.arg(self.retain_ms)
    }

    fn add_item<'c>(&self, call: Call<'c>, job: &AckRequest) -> Call<'c> {
        call.arg(job.attempt.unwrap_or(0))
    }

    fn read(job: &AckRequest, reply: &mut Reply, now_ms: u64) -> Result<AckOutcome, StoreError> {
        let (outcome, state) = (Settled::read(reply)?, reply.count()?);
        let age_ms = now_ms.saturating_sub(job.id.created_at_ms());
        match outcome {
            Settled::Gone => Ok(AckOutcome::AlreadyGone),
            Settled::Applied => Ok(AckOutcome::Done {
                was: crate::reply::state(state)?,
                age_ms,
            }),
            Settled::Rerun => Ok(AckOutcome::Rerun { age_ms }),
            Settled::Lost => Ok(AckOutcome::Lost),
            other => other.unexpected(),
        }
    }
}

impl Store {
    /// Ends a job that is done. With an `attempt`, only that delivery can, and only while it holds the job; without, any
    /// caller at any time.
    ///
    /// # Errors
    /// Redis is unavailable. The job may have been deleted.
    pub async fn ack(
        &self,
        queue: &QueueKey,
        id: JobId,
        attempt: Option<u32>,
    ) -> Result<AckOutcome, StoreError> {
        let request = AckRequest { id, attempt };
        let mut acked = self.ack_all(queue, &[request], 0).await?;
        Ok(acked.pop().unwrap_or(AckOutcome::AlreadyGone))
    }

    /// Ends jobs that are done, and returns the outcome of each, in order. Those of a bucket are ended in one step. Jobs
    /// of the native API that do not say how long they are to be kept are kept for `retain_ms`; 0 = they are deleted.
    ///
    /// # Errors
    /// Redis is unavailable. Jobs may have been deleted.
    pub async fn ack_all(
        &self,
        queue: &QueueKey,
        jobs: &[AckRequest],
        retain_ms: u64,
    ) -> Result<Vec<AckOutcome>, StoreError> {
        self.settle(&ACK, queue, &Ack { retain_ms }, jobs).await
    }
}
