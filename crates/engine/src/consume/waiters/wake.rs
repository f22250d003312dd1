//! Rings wait queues: on doorbells, when the lane table changes, when a pause ends or more jobs may run.
//! [`super::poll`] rings them in case a message was lost.

use std::sync::Arc;

use futures_util::future::join_all;
use tidegate_store::Doorbell;

use super::shared::Shared;
use super::source::Source;
use crate::pool::Pool;

impl Shared {
    /// Rings wait queues on doorbells, until the runtime shuts down.
    async fn listen(self: &Arc<Self>, pool: &Arc<Pool>) {
        let Pool { store, lanes, .. } = &**pool;
        let mut doorbells = store.doorbells();
        while let Some(doorbell) = doorbells.next().await {
            match doorbell {
                Doorbell::Rang { queue, bucket } => {
                    let used = lanes.used(&queue);
                    let lane = store.lane_in(bucket, &queue, used);
                    if lane.is_none() {
                        // The table has changed since it was read.
                        lanes.request_read();
                    }
                    let pool = Arc::clone(&pool.name);
                    self.doorbell(Source { pool, queue }, bucket, lane);
                }
                Doorbell::Ended { bucket, number } => pool.ends.ended(bucket, number),
                Doorbell::Resubscribed { buckets } => {
                    tracing::debug!(
                        pool = &*pool.name,
                        buckets = buckets.len(),
                        "listening for doorbells"
                    );
                    self.check_buckets(pool, buckets);
                }
            }
        }
    }

    /// Requests a check of the lane of a source in a bucket, or passes the doorbell on if no consumer waits for the
    /// source.
    fn doorbell(self: &Arc<Self>, source: Source, bucket: u16, lane: Option<u16>) {
        let rung = {
            let mut wait_queues = self.wait_queues.lock();
            let wait_queue = wait_queues.by_source.get_mut(&source);
            wait_queue.map(|wait_queue| wait_queue.doorbell(lane))
        };
        match rung {
            Some(true) => self.spawn_serve_loop(source),
            Some(false) => {}
            None => self.pass_on_in(bucket, source),
        }
    }

    /// Keeps the lane table current, rings the wait queues of all queues with several lanes after each change, and
    /// probes servers that are down. Never returns.
    async fn follow_lanes(self: &Arc<Self>, pool: &Pool) {
        let Pool {
            lanes, publisher, ..
        } = pool;
        let ringing = async {
            loop {
                lanes.changed().await;
                for queue in lanes.queues() {
                    let pool = Arc::clone(&pool.name);
                    self.ring(&Source { pool, queue }, None);
                }
            }
        };
        tokio::join!(ringing, lanes.follow(), publisher.probe());
    }

    /// Keeps the policies current, and rings the wait queues of queues that are no longer paused, may have more running
    /// jobs, or have other rates. Never returns.
    async fn follow_policies(self: &Arc<Self>, pool: &Pool) {
        let policies = &pool.policies;
        let ringing = async {
            loop {
                for queue in policies.unblocked().await {
                    let pool = Arc::clone(&pool.name);
                    let source = Source { pool, queue };
                    self.end_hold(&source);
                    self.ring(&source, None);
                }
            }
        };
        tokio::join!(ringing, policies.follow());
    }
}

/// Rings wait queues. Each pool has one subscription and one retry loop, and one timer serves
/// all polls, however many wait queues there are.
pub(super) async fn wake(shared: &Arc<Shared>) {
    let pools = || shared.pools.values().map(|state| &state.pool);
    let listening = pools().map(|pool| shared.listen(pool));
    let following = pools().map(|pool| shared.follow_lanes(pool));
    let policies = pools().map(|pool| shared.follow_policies(pool));
    let retrying = shared.pools.values().map(|state| shared.retry(state));
    tokio::select! {
        _ = join_all(retrying) => {}
        _ = join_all(listening) => {}
        _ = join_all(following) => {}
        _ = join_all(policies) => {}
        () = shared.poll_loop() => {}
    }
}
