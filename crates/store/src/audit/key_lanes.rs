//! Finds jobs in lanes that no number of lanes gives to their keys: another job may get the key.

use std::collections::{HashMap, HashSet};

use tidegate_core::keys::BucketKey;
use tidegate_core::{LaneNumbers, QueueKey, placement};

use super::bucket::{BucketAudit, COMMANDS_PER_CALL};
use super::finding::Inconsistency;
use super::indexes::NamedQueue;
use super::records::KeyedJob;
use crate::error::StoreError;
use crate::lanes::LaneRows;

/// A queue with a lane in the bucket.
struct LanedQueue {
    queue: QueueKey,
    lane: u16,
}

impl BucketAudit<'_> {
    /// Compares the lanes of keys with the table of lanes.
    pub(super) async fn check_key_lanes(
        &mut self,
        named: &[NamedQueue],
        keyed: &[KeyedJob],
    ) -> Result<(), StoreError> {
        if keyed.is_empty() {
            return Ok(());
        }
        let queues = named
            .iter()
            .filter_map(|it| Some((it.queue, self.laned(it)?)));
        let queues: HashMap<u32, LanedQueue> = queues.collect();
        let rows = self.store.lanes().rows().await?;
        for jobs in keyed.chunks(COMMANDS_PER_CALL) {
            self.check_some_key_lanes(&queues, &rows, jobs).await?;
        }
        Ok(())
    }

    fn laned(&self, named: &NamedQueue) -> Option<LanedQueue> {
        let queue = QueueKey::try_from(str::from_utf8(&named.name).ok()?).ok()?;
        let lanes = placement::lanes_max(self.store.buckets());
        let lane = self.store.lane_in(self.bucket, &queue, lanes)?;
        Some(LanedQueue { queue, lane })
    }

    /// A job is reported only if it still has its key, and the row of its queue has not changed since `before`. So others
    /// that a repair of one has found a number for are not reported.
    async fn check_some_key_lanes(
        &mut self,
        queues: &HashMap<u32, LanedQueue>,
        before: &LaneRows,
        jobs: &[KeyedJob],
    ) -> Result<(), StoreError> {
        let misplaced = |job: &KeyedJob| {
            let of_job = queues.get(&job.queue)?;
            let numbers = before.row(&of_job.queue).numbers;
            let is_placed = numbers
                .iter()
                .any(|number| job.key.lane(number) == of_job.lane);
            (!is_placed).then_some(of_job)
        };
        let doubtful = jobs.iter();
        let doubtful: Vec<(&KeyedJob, &LanedQueue)> = doubtful
            .filter_map(|job| Some((job, misplaced(job)?)))
            .collect();
        if doubtful.is_empty() {
            return Ok(());
        }
        let mut looks = redis::pipe();
        for (job, _) in &doubtful {
            let index = self.name(&BucketKey::KeyIndex(job.key.shard()));
            looks.hget(index, &job.key.0[..]);
        }
        let found: Vec<Option<u64>> = self.commands(&looks).await?;
        let after = self.store.lanes().rows().await?;
        let mut added = HashSet::new();
        for ((job, of_job), number) in doubtful.into_iter().zip(found) {
            let LanedQueue { queue, lane } = of_job;
            let is_same = before.placement(queue) == after.placement(queue);
            if !is_same || number != Some(job.id.number()) {
                continue;
            }
            // Of all numbers, this one gives the lane to keys that it may have at all.
            let number = lane + 1;
            let lost = LaneNumbers::of(number).ok();
            let lost = lost.filter(|_| self.options.repair && job.key.lane(number) == *lane);
            if lost.is_some() && added.insert((queue, number)) {
                let lanes = self.store.lanes();
                lanes.raise(queue, number, 0, lost).await?;
            }
            let defect = Inconsistency::KeyInWrongLane {
                id: job.id,
                lane: *lane,
            };
            self.found(defect, lost.is_some());
        }
        Ok(())
    }
}
