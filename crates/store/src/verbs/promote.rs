use tidegate_core::{JobId, QueueKey};

use super::job_reference::JobReference;
use super::waiting::WaitingOutcome;
use crate::error::StoreError;
use crate::script::{LazyScript, script};
use crate::store::Store;

static PROMOTE: LazyScript = script!("promote");

/// A job that is ready.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Promoted {
    pub id: JobId,
    /// When it became due, in ms since 1970.
    pub due_at_ms: u64,
    /// Whether it was delayed before.
    pub was_delayed: bool,
}

/// The outcome of making a job ready.
pub type PromoteOutcome = WaitingOutcome<Promoted>;

impl Store {
    /// Makes a delayed job ready now.
    ///
    /// # Errors
    /// Redis is unavailable. The job may be ready; the call may be repeated.
    pub async fn promote(
        &self,
        queue: &QueueKey,
        job: impl Into<JobReference>,
    ) -> Result<PromoteOutcome, StoreError> {
        let job = job.into();
        let Some(bucket) = self.bucket_of_job(queue, job) else {
            return Ok(PromoteOutcome::AlreadyGone);
        };
        let call = self.call_on_queue(&PROMOTE, queue, bucket);
        let mut reply = call.reference(job).send().await?;
        match reply.token() {
            "ok" => {
                let was_delayed = reply.flag()?;
                Ok(PromoteOutcome::Done(Promoted {
                    id: reply.job_id(bucket)?,
                    due_at_ms: reply.count()?,
                    was_delayed,
                }))
            }
            "gone" => Ok(PromoteOutcome::AlreadyGone),
            "held" => Ok(PromoteOutcome::NotWaiting(reply.state()?)),
            _ => reply.unknown(),
        }
    }
}
