use tidegate_core::Lane;

use super::reserve::HINTS_PER_CALL;
use crate::error::StoreError;
use crate::script::{LazyScript, script};
use crate::store::Store;

static LANE_CLOSE: LazyScript = script!("lane_close");
static LANE_OPEN: LazyScript = script!("lane_open");
static PUBLISH_PROBE: LazyScript = script!("write_probe").refused_without_memory();

impl Store {
    /// Closes a lane in its bucket with the epoch of its queue's row if it holds no job, and returns whether it is
    /// closed. Redis refuses publishes to it from then on, even if they were sent before. Lane 0 must never be closed.
    ///
    /// # Errors
    /// Redis is unavailable; the lane may be closed nevertheless, even later.
    pub async fn close_lane(&self, lane: Lane<'_>, epoch: u64) -> Result<bool, StoreError> {
        let bucket = self.bucket_of(lane);
        let call = self.call_on_queue(&LANE_CLOSE, lane.queue, bucket);
        let call = call.arg(epoch).arg(HINTS_PER_CALL);
        call.send().await?.ok()?.flag()
    }

    /// Opens a lane in its bucket if it was closed with an earlier epoch than `epoch`: the epoch of its queue's row, in
    /// which the lane must be in use already. Returns the epoch with which the lane stays closed, if it does.
    ///
    /// # Errors
    /// Redis is unavailable; the lane may be opened nevertheless, even later.
    pub async fn open_lane(&self, lane: Lane<'_>, epoch: u64) -> Result<Option<u64>, StoreError> {
        let bucket = self.bucket_of(lane);
        let call = self.call_on_queue(&LANE_OPEN, lane.queue, bucket);
        let closed_with = call.arg(epoch).send().await?.ok()?.count()?;
        Ok((closed_with > 0).then_some(closed_with))
    }

    /// Checks whether the server of a lane accepts publishes. Changes nothing.
    ///
    /// # Errors
    /// Redis is unavailable, or refuses publishes.
    pub async fn probe_publish(&self, lane: Lane<'_>) -> Result<(), StoreError> {
        let bucket = self.bucket_of(lane);
        let keys = self.keys(bucket);
        let call = self.call_on_bucket(&PUBLISH_PROBE, keys.queues(), keys);
        call.send().await?.ok()?;
        Ok(())
    }
}
