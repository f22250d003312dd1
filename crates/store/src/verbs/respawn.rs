use tidegate_core::{DURATION_MS_MAX, QueueKey};

use super::HINTS_PER_CALL;
use crate::script::{LazyScript, script};
use crate::{Store, StoreError};

static RESPAWN: LazyScript = script!("respawn");

impl Store {
    /// Gives the oldest `limit` dead jobs of a queue one more try each, at the tail of the queue, and
    /// answers how many there were. `ttl_ms` is their new time to live; 0 = they never expire.
    ///
    /// Each job moves in one step; many jobs take several steps.
    ///
    /// # Errors
    /// Redis is unavailable; jobs may have moved before.
    pub async fn respawn(
        &self,
        queue: &QueueKey,
        limit: u64,
        ttl_ms: u64,
    ) -> Result<u64, StoreError> {
        // Jobs that die meanwhile are not waited for.
        let limit = limit.min(self.stats(queue).await?.dead);
        let mut respawned = 0;
        while respawned < limit {
            let call = self
                .call_on_queue(&RESPAWN, queue)
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
