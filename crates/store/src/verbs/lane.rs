use tidegate_core::{KEY_HASH_BYTES, KeyHash, KeyPlacement, Lane};

use super::reserve::HINTS_PER_CALL;
use crate::error::StoreError;
use crate::script::{LazyScript, script};
use crate::store::Store;

static LANE_CLOSE: LazyScript = script!("lane_close");
static LANE_OPEN: LazyScript = script!("lane_open");
static LANE_KEYS: LazyScript = script!("lane_keys");
static LANE_REQUESTS: LazyScript = script!("lane_requests");
static PUBLISH_PROBE: LazyScript = script!("write_probe").refused_without_memory();

/// Some keys of a lane.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LaneKeys {
    pub keys: Vec<KeyHash>,
    /// Where to continue; `None` = all keys were returned.
    pub next: Option<KeysCursor>,
}

/// A place in the index of keys of a bucket.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct KeysCursor {
    shard: u64,
    /// In the shard, as the script has returned it.
    cursor: String,
}

/// How many shards the index has.
const SHARDS: u64 = 128;

impl Store {
    /// Some of the keys of a queue in one of its lanes, by the index. Afterwards the lane refuses earlier placements, so
    /// that a key that is not returned by a walk from the beginning does not come to a lane that is not its own.
    ///
    /// # Errors
    /// Redis is unavailable; or [`StoreError::PlacementStale`].
    pub async fn lane_keys(
        &self,
        lane: Lane<'_>,
        placement: KeyPlacement,
        from: &KeysCursor,
        limit: usize,
    ) -> Result<LaneKeys, StoreError> {
        let call = self.call_on_queue(&LANE_KEYS, lane.queue, self.bucket_of(lane));
        let call = call.arg(placement.to_string());
        let call = call.arg(from.shard).arg(&*from.cursor);
        let mut reply = call.arg(limit.max(1)).send().await?.ok()?;
        let shard = reply.count()?;
        let cursor = String::from_utf8_lossy(&reply.bytes()?).into_owned();
        let hashes = reply.bytes()?;
        let hashes = hashes.chunks_exact(KEY_HASH_BYTES);
        let keys = hashes.filter_map(|hash| hash.try_into().ok().map(KeyHash));
        Ok(LaneKeys {
            keys: keys.collect(),
            next: (shard < SHARDS).then_some(KeysCursor { shard, cursor }),
        })
    }

    /// Whether a request with an idempotency key, for any queue, may be found in the bucket of a lane if it is repeated.
    ///
    /// # Errors
    /// Redis is unavailable.
    pub async fn lane_has_requests(
        &self,
        lane: Lane<'_>,
        idempotency_window_ms: u64,
    ) -> Result<bool, StoreError> {
        let keys = self.keys(self.bucket_of(lane));
        let call = self.call_on_bucket(&LANE_REQUESTS, keys.queues(), keys);
        let call = call.arg(idempotency_window_ms.max(1));
        call.send().await?.ok()?.flag()
    }

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
