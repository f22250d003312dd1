use tidegate_core::{QueueKey, State};

use super::HINTS_PER_CALL;
use crate::script::{LazyScript, script};
use crate::{Store, StoreError};

static PURGE: LazyScript = script!("purge");

impl Store {
    /// Deletes the jobs of a queue that are ready now, and answers how many. Delayed and leased jobs
    /// stay; where there are none, nor dead ones, the queue is forgotten until it is published to
    /// again. Many jobs take several steps.
    ///
    /// # Errors
    /// Redis is unavailable; jobs may have been deleted before.
    pub async fn purge_ready(&self, queue: &QueueKey) -> Result<u64, StoreError> {
        // Jobs that become ready meanwhile are not waited for.
        let limit = self.stats(queue).await?.ready;
        self.purge(queue, State::Ready, limit).await
    }

    /// Deletes the oldest `limit` dead jobs of a queue, and answers how many there were. Many jobs
    /// take several steps.
    ///
    /// # Errors
    /// Redis is unavailable; jobs may have been deleted before.
    pub async fn purge_dead(&self, queue: &QueueKey, limit: u64) -> Result<u64, StoreError> {
        let limit = limit.min(self.stats(queue).await?.dead);
        if limit == 0 {
            return Ok(0);
        }
        self.purge(queue, State::Dead, limit).await
    }

    async fn purge(&self, queue: &QueueKey, state: State, limit: u64) -> Result<u64, StoreError> {
        let mut purged = 0;
        loop {
            let call = self
                .call_on_queue(&PURGE, queue)
                .arg(state.word())
                .arg(HINTS_PER_CALL.min(limit - purged));
            let mut reply = call.send().await?.ok()?;
            purged += reply.count()?;
            let more = reply.flag()?;
            if !more || purged >= limit {
                return Ok(purged);
            }
        }
    }
}
