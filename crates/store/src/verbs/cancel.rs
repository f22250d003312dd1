use tidegate_core::{JobId, JobState, QueueKey};

use crate::error::StoreError;
use crate::script::{LazyScript, script};
use crate::store::Store;

static CANCEL: LazyScript = script!("cancel");

/// The outcome of a cancel.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[must_use]
pub enum CancelOutcome {
    /// The job is deleted and will not be delivered.
    Done {
        /// The state it was in.
        was: JobState,
    },
    /// There is no such job in this queue.
    AlreadyGone,
    /// A consumer holds the job, which is unchanged.
    Leased,
}

impl Store {
    /// Deletes a job that is not leased.
    ///
    /// # Errors
    /// Redis is unavailable. The job may have been deleted.
    pub async fn cancel(&self, queue: &QueueKey, id: JobId) -> Result<CancelOutcome, StoreError> {
        if !self.has_bucket_of(id) {
            return Ok(CancelOutcome::AlreadyGone);
        }
        let call = self
            .call_on_queue(&CANCEL, queue, id.bucket())
            .job(Some(id));
        let mut reply = call.send().await?;
        match reply.token() {
            "ok" => Ok(CancelOutcome::Done {
                was: reply.state()?,
            }),
            "gone" => Ok(CancelOutcome::AlreadyGone),
            "leased" => Ok(CancelOutcome::Leased),
            _ => reply.unknown(),
        }
    }
}
