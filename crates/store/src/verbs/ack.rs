use std::collections::BTreeSet;

use tidegate_core::{JobId, QueueKey, State};

use crate::reply::{self, Reply};
use crate::script::{LazyScript, script};
use crate::{Store, StoreError};

static ACK: LazyScript = script!("ack");

/// What became of a job that was reported done.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[must_use]
pub enum Acked {
    /// The job is deleted.
    Done {
        /// The state it was in.
        was: State,
        /// From its publishing to now, in ms.
        age_ms: u64,
    },
    /// There is no such job in this queue (any more).
    AlreadyGone,
    /// The delivery that reported it no longer holds the job, which stays as it is.
    Lost,
}

/// A job that is reported done.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Done {
    /// The job.
    pub id: JobId,
    /// The delivery that is done; `None` = whichever, in any state of the job.
    pub attempt: Option<u32>,
}

impl Store {
    /// Deletes a job that is done. With an `attempt` only that delivery may do so while its lease
    /// lasts; without, any caller at any time.
    ///
    /// # Errors
    /// Redis is unavailable.
    pub async fn ack(
        &self,
        queue: &QueueKey,
        id: JobId,
        attempt: Option<u32>,
    ) -> Result<Acked, StoreError> {
        let mut acked = self.ack_all(queue, &[Done { id, attempt }]).await?;
        Ok(acked.pop().unwrap_or(Acked::AlreadyGone))
    }

    /// Deletes jobs that are done, those of a bucket in one step, and answers what became of each, in order.
    ///
    /// # Errors
    /// Redis is unavailable; jobs of other buckets may have been deleted before.
    pub async fn ack_all(&self, queue: &QueueKey, jobs: &[Done]) -> Result<Vec<Acked>, StoreError> {
        let mut outcomes = vec![Acked::AlreadyGone; jobs.len()];
        let ours = jobs.iter().filter(|job| self.has_bucket_of(job.id));
        let buckets: BTreeSet<u16> = ours.map(|job| job.id.bucket()).collect();
        for bucket in buckets {
            let is_here = |job: &Done| job.id.bucket() == bucket;
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

fn outcome(reply: &mut Reply, id: JobId, now_ms: u64) -> Result<Acked, StoreError> {
    let (outcome, state) = (reply.count()?, reply.count()?);
    match outcome {
        0 => Ok(Acked::AlreadyGone),
        1 => Ok(Acked::Done {
            was: reply::state(state)?,
            age_ms: now_ms.saturating_sub(id.created_at_ms()),
        }),
        2 => Ok(Acked::Lost),
        other => Err(StoreError::corrupt(format!("script answered {other}"))),
    }
}
