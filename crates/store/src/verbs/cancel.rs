use tidegate_core::{JobId, QueueKey, State};

use crate::script::{LazyScript, script};
use crate::{Store, StoreError};

static CANCEL: LazyScript = script!("cancel");

/// What became of a job that is no longer wanted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[must_use]
pub enum Cancelled {
    /// The job is deleted; nobody will get it.
    Done {
        /// The state it was in.
        was: State,
    },
    /// There is no such job in this queue (any more).
    AlreadyGone,
    /// A consumer is working on the job, which stays as it is.
    Leased,
}

impl Store {
    /// Deletes a job that nobody is working on.
    ///
    /// # Errors
    /// Redis is unavailable.
    pub async fn cancel(&self, queue: &QueueKey, id: JobId) -> Result<Cancelled, StoreError> {
        if !self.has_bucket_of(id) {
            return Ok(Cancelled::AlreadyGone);
        }
        let call = self
            .call_on_queue(&CANCEL, queue, id.bucket())
            .job(Some(id));
        let mut reply = call.send().await?;
        match reply.token() {
            "ok" => Ok(Cancelled::Done {
                was: reply.state()?,
            }),
            "gone" => Ok(Cancelled::AlreadyGone),
            "leased" => Ok(Cancelled::Leased),
            _ => reply.unknown(),
        }
    }
}
