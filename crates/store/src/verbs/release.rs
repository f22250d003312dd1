use tidegate_core::{JobId, QueueKey};

use crate::error::StoreError;
use crate::reply::Reply;
use crate::script::{LazyScript, script};
use crate::store::Store;

static RELEASE: LazyScript = script!("release");

/// The outcome of taking a delivery back.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[must_use]
pub enum ReleaseOutcome {
    /// The job is the next one of its queue again.
    Done,
    /// There is no such job in this queue.
    AlreadyGone,
    /// This delivery no longer holds the job.
    Lost,
}

impl Store {
    /// Takes back a delivery that did not reach its consumer. Its try is not counted.
    ///
    /// # Errors
    /// Those of [`Self::release_all`].
    pub async fn release(
        &self,
        queue: &QueueKey,
        id: JobId,
        attempt: u32,
    ) -> Result<ReleaseOutcome, StoreError> {
        let mut released = self.release_all(queue, &[(id, attempt)]).await?;
        Ok(released.pop().unwrap_or(ReleaseOutcome::AlreadyGone))
    }

    /// Takes back deliveries of a lane, by id and attempt, and returns the outcome of each, in order. This is one step:
    /// the last job becomes the next of its queue, and the others follow in reverse order. Jobs of other lanes than
    /// that of the first job are not found.
    ///
    /// # Errors
    /// Redis is unavailable. Unless the release was executed, the jobs are ready again when their leases expire, with one
    /// try less. Do not repeat a release: the next delivery may have the same attempt.
    pub async fn release_all(
        &self,
        queue: &QueueKey,
        deliveries: &[(JobId, u32)],
    ) -> Result<Vec<ReleaseOutcome>, StoreError> {
        let gone = || vec![ReleaseOutcome::AlreadyGone; deliveries.len()];
        let Some((first, _)) = deliveries.first() else {
            return Ok(gone());
        };
        if !self.has_bucket_of(*first) {
            return Ok(gone());
        }
        let bucket = first.bucket();
        let is_here = |(id, _): &&(JobId, u32)| id.bucket() == bucket;
        let call = self.call_on_queue(&RELEASE, queue, bucket);
        let here = deliveries.iter().filter(is_here);
        let call = here.fold(call, |call, (id, attempt)| {
            call.job(Some(*id)).arg(*attempt)
        });
        let mut reply = call.send().await?.ok()?;
        let mut outcomes = gone();
        for (delivery, released) in deliveries.iter().zip(&mut outcomes) {
            if is_here(&delivery) {
                *released = outcome(&mut reply)?;
            }
        }
        Ok(outcomes)
    }
}

fn outcome(reply: &mut Reply) -> Result<ReleaseOutcome, StoreError> {
    match reply.count()? {
        0 => Ok(ReleaseOutcome::AlreadyGone),
        1 => Ok(ReleaseOutcome::Done),
        2 => Ok(ReleaseOutcome::Lost),
        other => Err(StoreError::corrupt(format!(
            "script returned the unknown outcome {other}"
        ))),
    }
}
