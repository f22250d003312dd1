//! Jobs in lanes that consumers do not look into.

use redis::Pipeline;
use tidegate_core::keys::BucketKey;
use tidegate_core::{QueueKey, State, placement};

use super::bucket::{BucketAudit, COMMANDS_PER_CALL};
use super::indexes::NamedQueue;
use super::{Defect, Report};
use crate::StoreError;

/// A lane of a queue in the bucket.
struct LaneHere<'a> {
    queue: QueueKey,
    lane: u16,
    named: &'a NamedQueue,
}

impl BucketAudit<'_> {
    /// Compares the lanes that hold jobs here with the table of lanes. It comes after the counts, which it relies on.
    pub(super) async fn check_lanes(
        &self,
        named: &[NamedQueue],
        report: &mut Report<'_>,
    ) -> Result<(), StoreError> {
        let lanes: Vec<LaneHere<'_>> = named.iter().filter_map(|named| self.lane(named)).collect();
        for lanes in lanes.chunks(COMMANDS_PER_CALL / 2) {
            self.check_some_lanes(lanes, report).await?;
        }
        Ok(())
    }

    /// The lane that a queue has here. Lane 0 is of no interest, unless it is closed, which it never should be.
    fn lane<'n>(&self, named: &'n NamedQueue) -> Option<LaneHere<'n>> {
        let queue = QueueKey::try_from(str::from_utf8(&named.name).ok()?).ok()?;
        let lanes = placement::lanes_max(self.store.buckets());
        let lane = self.store.lane_in(self.bucket, &queue, lanes)?;
        (lane > 0 || named.closed_with.is_some()).then_some(LaneHere { queue, lane, named })
    }

    /// A lane is not used at the moment of the look if the row of its queue is the same before and after it: `used` is not
    /// raised without a later epoch.
    async fn check_some_lanes(
        &self,
        lanes: &[LaneHere<'_>],
        report: &mut Report<'_>,
    ) -> Result<(), StoreError> {
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
                self.found_unserved(lane, report).await?;
            }
        }
        Ok(())
    }

    fn look_at_lane(&self, lane: &LaneHere<'_>, looks: &mut Pipeline) {
        let NamedQueue { name, queue, .. } = lane.named;
        let names = self.name(&BucketKey::Queues);
        looks.cmd("HGET").arg(names).arg(name);
        let of_queue = self.name(&BucketKey::Queue(*queue));
        let states = State::ALL.map(State::word);
        looks.cmd("HMGET").arg(of_queue).arg(&states);
    }

    /// Has the lane in use, then opens it if it is closed.
    async fn found_unserved(
        &self,
        lane: &LaneHere<'_>,
        report: &mut Report<'_>,
    ) -> Result<(), StoreError> {
        let LaneHere { queue, lane, named } = lane;
        if self.options.repair {
            let closed_with = named.closed_with.unwrap_or_default();
            let lanes = self.store.lanes();
            let row = lanes.raise(queue, lane + 1, closed_with).await?;
            self.store.open_lane(queue.lane(*lane), row.epoch).await?;
        }
        let defect = Defect::LaneNotServed {
            name: queue.to_string(),
            lane: *lane,
        };
        report.found(Some(self.bucket), defect, self.options.repair);
        Ok(())
    }
}
