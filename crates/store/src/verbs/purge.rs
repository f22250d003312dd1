use std::time::Duration;

use tidegate_core::limits::DURATION_MS_MAX;
use tidegate_core::{JobId, JobState, Lane, QueueKey};

use super::reserve::HINTS_PER_CALL;
use crate::error::StoreError;
use crate::script::{LazyScript, script};
use crate::store::Store;

static PURGE: LazyScript = script!("purge");

impl Store {
    /// Deletes the ready jobs of a lane, and returns their number. Delayed, leased and dead jobs stay. A lane without
    /// any job is forgotten until the next publish, unless its bucket has more than 1000 far timers, which are too many
    /// to check in one step. Many jobs take several steps; after the last one no job is ready.
    ///
    /// # Errors
    /// Redis is unavailable. Jobs may have been deleted.
    pub async fn purge_ready<'a>(&self, lane: impl Into<Lane<'a>>) -> Result<u64, StoreError> {
        self.purge(lane.into(), JobState::Ready, u64::MAX, Duration::ZERO)
            .await
    }

    /// Deletes up to `limit` of the oldest dead jobs of a lane, and returns their number. Many jobs take several steps.
    ///
    /// # Errors
    /// Redis is unavailable. Jobs may have been deleted.
    pub async fn purge_dead<'a>(
        &self,
        lane: impl Into<Lane<'a>>,
        limit: u64,
    ) -> Result<u64, StoreError> {
        self.purge(lane.into(), JobState::Dead, limit, Duration::ZERO)
            .await
    }

    /// Deletes the jobs of a lane that have been dead for at least `dead_for`, and returns their number. Many jobs take
    /// several steps.
    ///
    /// # Errors
    /// Redis is unavailable. Jobs may have been deleted.
    pub async fn purge_dead_after<'a>(
        &self,
        lane: impl Into<Lane<'a>>,
        dead_for: Duration,
    ) -> Result<u64, StoreError> {
        self.purge(lane.into(), JobState::Dead, u64::MAX, dead_for)
            .await
    }

    /// Of these jobs of a queue, deletes the jobs in this state, ready or dead, and returns their number. The jobs must
    /// be in the bucket of the first one; at most [`super::LIST_HINTS_MAX`].
    ///
    /// # Errors
    /// Redis is unavailable. Jobs may have been deleted.
    pub async fn purge_jobs(
        &self,
        queue: &QueueKey,
        state: JobState,
        jobs: &[JobId],
    ) -> Result<u64, StoreError> {
        let Some(first) = jobs.first() else {
            return Ok(0);
        };
        let call = self.call_on_queue(&PURGE, queue, first.bucket());
        let call = call.arg(state.as_str()).arg(0).arg(0);
        let call = jobs.iter().fold(call, |call, job| call.job(Some(*job)));
        call.send_in_turn().await?.ok()?.count()
    }

    /// Ends when the list is empty. The count of jobs is not used: it may be wrong.
    async fn purge(
        &self,
        lane: Lane<'_>,
        state: JobState,
        limit: u64,
        dead_for: Duration,
    ) -> Result<u64, StoreError> {
        let dead_ms = u64::try_from(dead_for.as_millis()).unwrap_or(DURATION_MS_MAX);
        let bucket = self.bucket_of(lane);
        let mut purged = 0;
        while purged < limit {
            let call = self
                .call_on_queue(&PURGE, lane.queue, bucket)
                .arg(state.as_str())
                .arg(HINTS_PER_CALL.min(limit - purged))
                .arg(dead_ms.min(DURATION_MS_MAX));
            let mut reply = call.send_in_turn().await?.ok()?;
            purged += reply.count()?;
            if !reply.flag()? {
                break;
            }
        }
        Ok(purged)
    }
}
