//! Polls of the queues that consumers wait for, in case a doorbell was lost.
//!
//! One call asks a bucket about all its queues, so the cost of waiting does not grow with the number of idle queues.

use std::collections::HashMap;
use std::sync::Arc;

use tidegate_store::{POLL_QUEUES_MAX, Store};
use tokio::time::{MissedTickBehavior, interval};

use super::shared::Shared;
use super::source::Source;

/// The number of parts of a poll interval; in each of them a part of the buckets is polled.
const TURNS: u16 = 8;

/// The sources to poll, each with one of its lanes, by pool and bucket.
type Polled = HashMap<(Arc<str>, u16), Vec<(Source, u16)>>;

impl Shared {
    /// Polls each bucket with queues that are waited for once in a poll interval. Never returns.
    pub(super) async fn poll_loop(self: &Arc<Self>) {
        let mut turns = interval(self.poll_interval / u32::from(TURNS));
        turns.set_missed_tick_behavior(MissedTickBehavior::Delay);
        for turn in (0..TURNS).cycle() {
            turns.tick().await;
            for ((pool, bucket), lanes) in self.polled(turn) {
                let Some(pool) = self.pools.get(&pool) else {
                    continue;
                };
                // Each call is a task: a server that does not answer must not hold up the others.
                let (shared, store) = (Arc::clone(self), pool.deployment.store.clone());
                let poll = async move { shared.poll(&store, bucket, &lanes).await };
                self.tasks.spawn_on(poll, &self.runtime);
            }
        }
    }

    /// The lanes in the buckets of this turn whose wait queues have no serve loop.
    fn polled(&self, turn: u16) -> Polled {
        let mut polled = Polled::new();
        let wait_queues = self.wait_queues.lock();
        let parked = wait_queues.by_source.iter();
        for (source, wait_queue) in parked.filter(|(_, wait_queue)| wait_queue.is_parked()) {
            let Some(pool) = self.pools.get(&source.pool) else {
                continue;
            };
            for lane in wait_queue.polled_lanes() {
                let bucket = pool.deployment.store.bucket_of(source.queue.lane(lane));
                if bucket % TURNS == turn {
                    let of_bucket = polled.entry((Arc::clone(&source.pool), bucket));
                    of_bucket.or_default().push((source.clone(), lane));
                }
            }
        }
        polled
    }

    /// Asks a bucket which of these lanes may have jobs, and rings their wait queues. If the call fails it rings all: their
    /// own calls then fail too, and are repeated until they succeed ([`super::retry`]).
    async fn poll(self: &Arc<Self>, store: &Store, bucket: u16, lanes: &[(Source, u16)]) {
        for lanes in lanes.chunks(POLL_QUEUES_MAX) {
            let queues = lanes.iter().map(|(source, _)| &source.queue);
            let may_have_jobs = match store.poll(bucket, queues).await {
                Ok(may_have_jobs) => may_have_jobs,
                Err(_) => vec![true; lanes.len()],
            };
            for ((source, lane), may_have_jobs) in lanes.iter().zip(may_have_jobs) {
                if may_have_jobs {
                    self.ring(source, Some(*lane));
                }
            }
        }
    }
}
