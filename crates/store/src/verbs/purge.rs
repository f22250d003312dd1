use tidegate_core::{Lane, State};

use super::HINTS_PER_CALL;
use crate::script::{LazyScript, script};
use crate::{Store, StoreError};

static PURGE: LazyScript = script!("purge");

impl Store {
    /// Deletes the ready jobs of a lane, and returns how many there were. Delayed and leased jobs stay. A lane
    /// without any job is forgotten until it is published to again, unless its bucket has more than 1000 far
    /// timers: then that cannot be seen in one step. Many jobs take several steps, and the last one leaves no job
    /// ready.
    ///
    /// # Errors
    /// Redis is unavailable; jobs may have been deleted before.
    pub async fn purge_ready<'a>(&self, lane: impl Into<Lane<'a>>) -> Result<u64, StoreError> {
        self.purge(lane.into(), State::Ready, u64::MAX).await
    }

    /// Deletes the oldest `limit` dead jobs of a lane, and answers how many there were. Many jobs
    /// take several steps.
    ///
    /// # Errors
    /// Redis is unavailable; jobs may have been deleted before.
    pub async fn purge_dead<'a>(
        &self,
        lane: impl Into<Lane<'a>>,
        limit: u64,
    ) -> Result<u64, StoreError> {
        if limit == 0 {
            return Ok(0);
        }
        self.purge(lane.into(), State::Dead, limit).await
    }

    /// Ends when the list is empty, not by the count, which may be wrong.
    async fn purge(&self, lane: Lane<'_>, state: State, limit: u64) -> Result<u64, StoreError> {
        let bucket = self.bucket_of(lane);
        let mut purged = 0;
        loop {
            let call = self
                .call_on_queue(&PURGE, lane.queue, bucket)
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
