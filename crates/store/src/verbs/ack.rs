use std::collections::BTreeSet;

use tidegate_core::{JobId, JobState, QueueKey};

use crate::error::StoreError;
use crate::reply::{self, Reply};
use crate::script::{LazyScript, script};
use crate::store::Store;

static ACK: LazyScript = script!("ack");

/// The outcome of an acknowledgement.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[must_use]
pub enum AckOutcome {
    /// The job is deleted.
    Done {
        /// The state it was in.
        was: JobState,
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
    /// The delivery that is done; `None` = any delivery, in any state of the job.
    pub attempt: Option<u32>,
}

impl Store {
    /// Deletes a job that is done. With an `attempt`, only that delivery can, and only while it holds the job; without,
    /// any caller at any time.
    ///
    /// # Errors
    /// Redis is unavailable. The job may have been deleted.
    pub async fn ack(
        &self,
        queue: &QueueKey,
        id: JobId,
        attempt: Option<u32>,
    ) -> Result<AckOutcome, StoreError> {
        let mut acked = self.ack_all(queue, &[AckRequest { id, attempt }]).await?;
        Ok(acked.pop().unwrap_or(AckOutcome::AlreadyGone))
    }

    /// Deletes jobs that are done, and returns the outcome of each, in order. The jobs of a bucket are deleted in one
    /// step.
    ///
    /// # Errors
    /// Redis is unavailable. Jobs may have been deleted.
    pub async fn ack_all(
        &self,
        queue: &QueueKey,
        jobs: &[AckRequest],
    ) -> Result<Vec<AckOutcome>, StoreError> {
        let mut outcomes = vec![AckOutcome::AlreadyGone; jobs.len()];
        let ours = jobs.iter().filter(|job| self.has_bucket_of(job.id));
        let buckets: BTreeSet<u16> = ours.map(|job| job.id.bucket()).collect();
        for bucket in buckets {
            let is_here = |job: &AckRequest| job.id.bucket() == bucket;
            let call = self.call_on_queue(&ACK, queue, bucket);
            let here = jobs.iter().filter(|job| is_here(job));
            let call = here.fold(call, |call, job| {
                call.job(Some(job.id)).arg(job.attempt.unwrap_or(0))
            });
            let mut reply = call.send().await?.ok()?;
            let now_ms = reply.count()?;
            for (job, became) in jobs.iter().zip(&mut outcomes) {
                if is_here(job) {
                    *became = outcome(&mut reply, job.id, now_ms)?;
                }
            }
        }
        Ok(outcomes)
    }
}

fn outcome(reply: &mut Reply, id: JobId, now_ms: u64) -> Result<AckOutcome, StoreError> {
    let (outcome, state) = (reply.count()?, reply.count()?);
    match outcome {
        0 => Ok(AckOutcome::AlreadyGone),
        1 => Ok(AckOutcome::Done {
            was: reply::state(state)?,
            age_ms: now_ms.saturating_sub(id.created_at_ms()),
        }),
        2 => Ok(AckOutcome::Lost),
        other => Err(StoreError::corrupt(format!(
            "script returned the unknown outcome {other}"
        ))),
    }
}
