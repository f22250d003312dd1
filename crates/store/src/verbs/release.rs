use tidegate_core::{JobId, QueueKey};

use crate::script::{LazyScript, script};
use crate::{Store, StoreError};

static RELEASE: LazyScript = script!("release");

/// What became of a delivery that was taken back.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[must_use]
pub enum Released {
    /// The job is the next of its queue again, with its try given back.
    Done,
    /// There is no such job in this queue (any more).
    AlreadyGone,
    /// That delivery no longer held the job, which stays as it is.
    Lost,
}

impl Store {
    /// Takes back a delivery that never reached its consumer: its try is not counted.
    ///
    /// # Errors
    /// Redis is unavailable; the job then comes back when its lease ends, with the try counted.
    pub async fn release(
        &self,
        queue: &QueueKey,
        id: JobId,
        attempt: u32,
    ) -> Result<Released, StoreError> {
        if !self.has_bucket_of(id) {
            return Ok(Released::AlreadyGone);
        }
        let call = self
            .call_on_queue(&RELEASE, queue, id.bucket())
            .job(Some(id))
            .arg(attempt);
        let reply = call.send().await?;
        match reply.token() {
            "ok" => Ok(Released::Done),
            "gone" => Ok(Released::AlreadyGone),
            "lost" => Ok(Released::Lost),
            _ => reply.unknown(),
        }
    }
}
