use tidegate_core::{JobId, QueueKey, State};

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
        if id.bucket() != self.bucket_of(queue) {
            return Ok(Acked::AlreadyGone);
        }
        let call = self
            .call_on_queue(&ACK, queue)
            .job(Some(id))
            .arg(attempt.unwrap_or(0));
        let mut reply = call.send().await?;
        match reply.token() {
            "ok" => {
                let was = reply.state()?;
                let created_at_ms = reply.count()?;
                let age_ms = reply.count()?.saturating_sub(created_at_ms);
                Ok(Acked::Done { was, age_ms })
            }
            "gone" => Ok(Acked::AlreadyGone),
            "lost" => Ok(Acked::Lost),
            _ => reply.unknown(),
        }
    }
}
