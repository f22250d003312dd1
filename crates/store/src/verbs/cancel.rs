use tidegate_core::{IfRunning, JobId, JobState, QueueKey};

use super::job_reference::JobReference;
use crate::error::StoreError;
use crate::script::{LazyScript, script};
use crate::store::Store;

static CANCEL: LazyScript = script!("cancel");

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[must_use]
pub enum CancelOutcome {
    /// The job is deleted. It will not be delivered, or not again.
    Done { id: JobId, was: JobState },
    /// A consumer holds the job. It is deleted at the end of its lease, unless it is done.
    Requested(JobId),
    /// The job is done, and kept for a while.
    AlreadyDone(JobId),
    /// There is no such job in this queue.
    AlreadyGone,
    /// A consumer holds the job, which is unchanged.
    Leased,
}

impl Store {
    /// Deletes a job.
    ///
    /// # Errors
    /// Redis is unavailable. The job may have been deleted.
    pub async fn cancel(
        &self,
        queue: &QueueKey,
        job: impl Into<JobReference>,
        if_running: IfRunning,
    ) -> Result<CancelOutcome, StoreError> {
        self.cancel_in(queue, job, None, if_running).await
    }

    /// Deletes a job if it is in this state; `None` = in any state. Otherwise the outcome is that it is gone.
    ///
    /// # Errors
    /// Redis is unavailable. The job may have been deleted.
    pub async fn cancel_in(
        &self,
        queue: &QueueKey,
        job: impl Into<JobReference>,
        state: Option<JobState>,
        if_running: IfRunning,
    ) -> Result<CancelOutcome, StoreError> {
        let job = job.into();
        let Some(bucket) = self.bucket_of_job(queue, job) else {
            return Ok(CancelOutcome::AlreadyGone);
        };
        let call = self.call_on_queue(&CANCEL, queue, bucket);
        let call = call.reference(job).arg(if_running.as_str());
        let mut reply = call.state(state).send().await?;
        match reply.token() {
            "ok" => {
                let was = reply.state()?;
                let id = reply.job_id(bucket)?;
                Ok(match (was, if_running) {
                    (JobState::Leased, IfRunning::Ask) => CancelOutcome::Requested(id),
                    _ => CancelOutcome::Done { id, was },
                })
            }
            "gone" => Ok(CancelOutcome::AlreadyGone),
            "done" => Ok(CancelOutcome::AlreadyDone(reply.job_id(bucket)?)),
            "leased" => Ok(CancelOutcome::Leased),
            _ => reply.unknown(),
        }
    }
}
