use tidegate_core::{DURATION_MS_MAX, Lane};

use super::reserve::HINTS_PER_CALL;
use crate::error::StoreError;
use crate::script::{LazyScript, script};
use crate::store::Store;

static RESPAWN: LazyScript = script!("respawn");

impl Store {
    /// Makes up to `limit` of the oldest dead jobs of a lane ready, with one try each, at the tail of the lane. Returns
    /// their number. `ttl_ms` is their new time to live in ms; 0 = they never expire.
    ///
    /// Each job is changed in one step; many jobs take several steps.
    ///
    /// # Errors
    /// Redis is unavailable. Jobs may have been respawned.
    pub async fn respawn<'a>(
        &self,
        lane: impl Into<Lane<'a>>,
        limit: u64,
        ttl_ms: u64,
    ) -> Result<u64, StoreError> {
        let lane = lane.into();
        let bucket = self.bucket_of(lane);
        let mut respawned = 0;
        // Ends when the list is empty. The count of dead jobs is not used: it may be wrong.
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
