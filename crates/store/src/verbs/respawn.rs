use tidegate_core::{DURATION_MS_MAX, Lane};

use super::HINTS_PER_CALL;
use crate::script::{LazyScript, script};
use crate::{Store, StoreError};

static RESPAWN: LazyScript = script!("respawn");

impl Store {
    /// Gives the oldest `limit` dead jobs of a lane one more try each, at the tail of the lane, and
    /// answers how many there were. `ttl_ms` is their new time to live; 0 = they never expire.
    ///
    /// Each job moves in one step; many jobs take several steps.
    ///
    /// # Errors
    /// Redis is unavailable; jobs may have moved before.
    pub async fn respawn<'a>(
        &self,
        lane: impl Into<Lane<'a>>,
        limit: u64,
        ttl_ms: u64,
    ) -> Result<u64, StoreError> {
        let lane = lane.into();
        let bucket = self.bucket_of(lane);
        let mut respawned = 0;
        // Ends when the list is empty, not by the count, which may be wrong.
        while respawned < limit {
            let call = self
                .call_on_queue(&RESPAWN, lane.queue, bucket)
                .arg(HINTS_PER_CALL.min(limit - respawned))
                .arg(ttl_ms.min(DURATION_MS_MAX));
            let mut reply = call.send().await?.ok()?;
            respawned += reply.count()?;
            if !reply.flag()? {
                break;
            }
        }
        Ok(respawned)
    }
}
