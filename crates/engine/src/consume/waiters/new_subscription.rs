//! Checks after a new subscription: the messages before it may be lost.
//!
//! All processes subscribe again at the same moment when Redis restarts or a connection is cut by it. So they do not
//! call `reserve` for each queue that consumers wait for, but ask each bucket once, as [`super::poll`] does, and not
//! all at the same time.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::join_all;
use tokio::time::sleep;

use super::poll::PolledLane;
use super::shared::Shared;
use crate::pool::Pool;

/// The checks of the buckets are spread over this time at random. It delays a job whose doorbell was lost.
const SPREAD: Duration = Duration::from_millis(200);

impl Shared {
    /// Starts a check of these buckets: the queues that consumers wait for, and the jobs whose ends clients wait for.
    pub(super) fn check_buckets(self: &Arc<Self>, pool: &Arc<Pool>, buckets: BTreeSet<u16>) {
        let mut to_poll = self.awaited_in(pool, &buckets);
        let ends = pool.ends.buckets();
        for bucket in ends.intersection(&buckets) {
            to_poll.entry(*bucket).or_default();
        }
        let (shared, pool) = (Arc::clone(self), Arc::clone(pool));
        let checking = async move {
            let checks = to_poll.into_iter().map(async |(bucket, lanes)| {
                sleep(SPREAD.mul_f64(rand::random())).await;
                pool.ends.check_bucket(bucket);
                shared.poll(&pool, bucket, &lanes).await;
            });
            join_all(checks).await;
        };
        self.tasks.spawn_on(checking, &self.runtime);
    }

    /// The lanes in these buckets that consumers wait for, by bucket. A wait queue with a serve loop checks its lanes
    /// once more; one without consumers no longer relies on its registrations.
    fn awaited_in(&self, pool: &Pool, buckets: &BTreeSet<u16>) -> BTreeMap<u16, Vec<PolledLane>> {
        let mut awaited: BTreeMap<u16, Vec<PolledLane>> = BTreeMap::new();
        let mut wait_queues = self.wait_queues.lock();
        let of_pool = wait_queues
            .by_source
            .iter_mut()
            .filter(|(source, _)| source.pool == pool.name);
        for (source, wait_queue) in of_pool {
            let bucket_of = |lane| pool.store().bucket_of(source.queue.lane(lane));
            let lanes: Vec<_> = wait_queue
                .polled_lanes()
                .map(|(lane, events)| (bucket_of(lane), lane, events))
                .filter(|(bucket, ..)| buckets.contains(bucket))
                .collect();
            for (bucket, lane, events) in lanes {
                if wait_queue.is_parked() && wait_queue.len() > 0 {
                    let lanes = awaited.entry(bucket).or_default();
                    lanes.push((source.clone(), lane, events));
                } else {
                    wait_queue.request_check(lane);
                }
            }
        }
        awaited
    }
}
