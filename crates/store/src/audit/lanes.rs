//! Finds jobs in lanes that consumers do not read.

use redis::Pipeline;
use tidegate_core::keys::BucketKey;
use tidegate_core::{JobState, QueueKey, placement};

use super::bucket::{BucketAudit, COMMANDS_PER_CALL};
use super::finding::Inconsistency;
use super::indexes::NamedQueue;
use crate::error::StoreError;

/// A lane of a queue in the bucket.
struct LocalLane<'a> {
    queue: QueueKey,
    lane: u16,
    named: &'a NamedQueue,
}

impl BucketAudit<'_> {
    /// Compares the lanes that hold jobs here with the table of lanes. Runs after the check of the counts, which it
    /// uses.
    pub(super) async fn check_lanes(&mut self, named: &[NamedQueue]) -> Result<(), StoreError> {
        let lanes: Vec<LocalLane<'_>> = named.iter().filter_map(|named| self.lane(named)).collect();
        for lanes in lanes.chunks(COMMANDS_PER_CALL / 2) {
            self.check_some_lanes(lanes).await?;
        }
        Ok(())
    }

    /// The lane of a queue in this bucket. Lane 0 is skipped unless it is closed, which must never be.
    fn lane<'n>(&self, named: &'n NamedQueue) -> Option<LocalLane<'n>> {
        let queue = QueueKey::try_from(str::from_utf8(&named.name).ok()?).ok()?;
        let lanes = placement::lanes_max(self.store.buckets());
        let lane = self.store.lane_in(self.bucket, &queue, lanes)?;
        (lane > 0 || named.closed_with.is_some()).then_some(LocalLane { queue, lane, named })
    }

    /// A lane that the row does not have in use is reported only if the row is the same before and after the lane is
    /// read. This suffices, since `used` increases only together with the epoch.
    async fn check_some_lanes(&mut self, lanes: &[LocalLane<'_>]) -> Result<(), StoreError> {
        let before = self.store.lanes().rows().await?;
        let mut looks = redis::pipe();
        looks.atomic();
        for lane in lanes {
            self.look_at_lane(lane, &mut looks);
        }
        let answers: Vec<redis::Value> = self.commands(&looks).await?;
        let after = self.store.lanes().rows().await?;
        for (lane, look) in lanes.iter().zip(answers.chunks_exact(2)) {
            let value: Option<Vec<u8>> = redis::from_redis_value_ref(&look[0]).unwrap_or_default();
            let jobs: Vec<Option<i64>> = redis::from_redis_value_ref(&look[1]).unwrap_or_default();
            let is_unchanged = value.as_ref() == Some(&lane.named.value);
            let has_jobs = jobs.into_iter().flatten().any(|jobs| jobs > 0);
            let row = before.row(&lane.queue);
            let is_used = before.last_epoch != after.last_epoch
                || row != after.row(&lane.queue)
                || lane.lane < row.counts.used;
            if is_unchanged && has_jobs && (lane.named.closed_with.is_some() || !is_used) {
                self.found_unserved(lane).await?;
            }
        }
        Ok(())
    }

    fn look_at_lane(&self, lane: &LocalLane<'_>, looks: &mut Pipeline) {
        let NamedQueue { name, queue, .. } = lane.named;
        let names = self.name(&BucketKey::Queues);
        looks.cmd("HGET").arg(names).arg(name);
        let of_queue = self.name(&BucketKey::Queue(*queue));
        let states = JobState::ALL.map(JobState::as_str);
        looks.cmd("HMGET").arg(of_queue).arg(&states);
    }

    /// Reports a lane. Repairs it: takes it into use, then opens it if it is closed.
    async fn found_unserved(&mut self, lane: &LocalLane<'_>) -> Result<(), StoreError> {
        let LocalLane { queue, lane, named } = lane;
        if self.options.repair {
            let closed_with = named.closed_with.unwrap_or_default();
            let lanes = self.store.lanes();
            let row = lanes.raise(queue, lane + 1, closed_with, None).await?;
            self.store.open_lane(queue.lane(*lane), row.epoch).await?;
        }
        let defect = Inconsistency::LaneNotServed {
            name: queue.to_string(),
            lane: *lane,
        };
        self.found(defect, self.options.repair);
        Ok(())
    }
}
