use std::time::Duration;

use tidegate_core::limits::DURATION_MS_MAX;
use tidegate_core::{Lane, QueueKey};

use super::list_jobs::ListedJob;
use super::reserve::HINTS_PER_CALL;
use crate::error::StoreError;
use crate::script::{LazyScript, script};
use crate::store::Store;

static RESPAWN: LazyScript = script!("respawn");

/// When respawned jobs are due, counted from the call.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct DueTimes {
    /// Until the first job is due.
    pub first: Duration,
    /// Between the due times of two jobs.
    pub space: Duration,
}

impl DueTimes {
    /// Until the job at this position is due.
    pub fn of(self, position: u64) -> Duration {
        let position = u32::try_from(position).unwrap_or(u32::MAX);
        self.first
            .saturating_add(self.space.saturating_mul(position))
    }
}

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
        self.respawn_spaced(lane, limit, ttl_ms, DueTimes::default())
            .await
    }

    /// Like [`Self::respawn`], with due times that are evenly spaced.
    ///
    /// # Errors
    /// Redis is unavailable. Jobs may have been respawned.
    pub async fn respawn_spaced<'a>(
        &self,
        lane: impl Into<Lane<'a>>,
        limit: u64,
        ttl_ms: u64,
        due: DueTimes,
    ) -> Result<u64, StoreError> {
        let lane = lane.into();
        let bucket = self.bucket_of(lane);
        let now_us = match due.space.is_zero() && due.first.is_zero() {
            true => 0,
            false => 1000 * self.bucket_now_ms(bucket).await?,
        };
        let mut respawned = 0;
        // Ends when the list is empty. The count of dead jobs is not used: it may be wrong.
        while respawned < limit {
            let call = self
                .call_on_queue(&RESPAWN, lane.queue, bucket)
                .arg(HINTS_PER_CALL.min(limit - respawned))
                .arg(ttl_ms.min(DURATION_MS_MAX))
                .arg(now_us + micros(due.of(respawned)))
                .arg(micros(due.space));
            let mut reply = call.send_in_turn().await?.ok()?;
            respawned += reply.count()?;
            if !reply.flag()? {
                break;
            }
        }
        Ok(respawned)
    }

    /// Of these jobs of a queue, makes the dead ones ready, or delayed, and returns their number. The jobs must be in
    /// the bucket of the first one, as [`Self::list_jobs`] returned them; at most [`super::LIST_HINTS_MAX`]. They never
    /// expire. The first job is due at `due_us` on the clock of its Redis, in µs since 1970, and each further one
    /// `space` later.
    ///
    /// # Errors
    /// Redis is unavailable. Jobs may have been respawned.
    pub async fn respawn_jobs(
        &self,
        queue: &QueueKey,
        jobs: &[ListedJob],
        due_us: u64,
        space: Duration,
    ) -> Result<u64, StoreError> {
        let Some(first) = jobs.first() else {
            return Ok(0);
        };
        let mut call = self
            .call_on_queue(&RESPAWN, queue, first.job.id.bucket())
            .arg(0)
            .arg(0)
            .arg(due_us)
            .arg(micros(space));
        for listed in jobs {
            call = call.job(Some(listed.job.id)).arg(listed.index.unwrap_or(0));
        }
        call.send_in_turn().await?.ok()?.count()
    }
}

fn micros(duration: Duration) -> u64 {
    let micros = u64::try_from(duration.as_micros()).unwrap_or(u64::MAX);
    micros.min(DURATION_MS_MAX * 1000)
}
