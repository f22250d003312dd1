use tidegate_core::{Lane, State};

use super::HINTS_PER_CALL;
use crate::script::{LazyScript, script};
use crate::{Store, StoreError};

static PURGE: LazyScript = script!("purge");

impl Store {
    /// Deletes the jobs of a lane that are ready now, and answers how many. Delayed and leased jobs
    /// stay; where there are none, nor dead ones, the lane is forgotten until it is published to
    /// again. Many jobs take several steps.
    ///
    /// # Errors
    /// Redis is unavailable; jobs may have been deleted before.
    pub async fn purge_ready<'a>(&self, lane: impl Into<Lane<'a>>) -> Result<u64, StoreError> {
        let lane = lane.into();
        // Jobs that become ready meanwhile are not waited for.
        let limit = self.stats(lane).await?.ready;
        self.purge(lane, State::Ready, limit).await
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
        let lane = lane.into();
        let limit = limit.min(self.stats(lane).await?.dead);
        if limit == 0 {
            return Ok(0);
        }
        self.purge(lane, State::Dead, limit).await
    }

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
