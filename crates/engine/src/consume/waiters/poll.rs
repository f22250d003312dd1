//! Polls of the queues that consumers wait for, in case a doorbell was lost, and withdrawals from queues that no
//! consumer waits for any more.
//!
//! One call asks a bucket about all its queues, so the cost of waiting does not grow with the number of idle queues.

use std::collections::HashMap;
use std::sync::Arc;

use tidegate_store::{POLL_QUEUES_MAX, PolledQueue};
use tokio::time::{Instant, MissedTickBehavior, interval};

use super::shared::Shared;
use super::source::Source;
use crate::pool::Pool;

/// The number of parts of a poll interval; in each of them a part of the buckets is polled.
const TURNS: u16 = 8;

/// A lane to poll, and the number of its events before.
pub(super) type PolledLane = (Source, u16, u64);

/// The outcome of a poll of one bucket.
#[derive(Default)]
struct BucketPoll {
    /// The lanes that consumers wait for.
    awaited: Vec<PolledLane>,
    /// Those for which the process is registered although no consumer has waited for a poll interval.
    left: Vec<Source>,
}

/// By pool and bucket.
type Polled = HashMap<(Arc<str>, u16), BucketPoll>;

impl Shared {
    /// Polls each bucket with queues that are waited for once in a poll interval. Never returns.
    pub(super) async fn poll_loop(self: &Arc<Self>) {
        let mut turns = interval(self.poll_interval / u32::from(TURNS));
        turns.set_missed_tick_behavior(MissedTickBehavior::Delay);
        for turn in (0..TURNS).cycle() {
            turns.tick().await;
            for ((pool, bucket), lanes) in self.polled(turn) {
                let Some(state) = self.pools.get(&pool) else {
                    continue;
                };
                // Each call is a task: a server that does not answer must not hold up the others.
                let (shared, pool) = (Arc::clone(self), Arc::clone(&state.pool));
                let poll = async move {
                    shared.withdraw(bucket, &lanes.left).await;
                    shared.poll(&pool, bucket, &lanes.awaited).await;
                };
                self.tasks.spawn_on(poll, &self.runtime);
            }
        }
    }

    /// The lanes in the buckets of this turn whose wait queues have consumers and no serve loop, and in all buckets
    /// those to withdraw from.
    fn polled(&self, turn: u16) -> Polled {
        let mut polled = Polled::new();
        let left_since = Instant::now().checked_sub(self.poll_interval);
        let mut wait_queues = self.wait_queues.lock();
        wait_queues.by_source.retain(|source, wait_queue| {
            let Some(state) = self.pools.get(&source.pool) else {
                return true;
            };
            let bucket_of = |lane| state.pool.store().bucket_of(source.queue.lane(lane));
            let place_of = |bucket| (Arc::clone(&source.pool), bucket);
            if wait_queue.is_parked() && wait_queue.len() > 0 {
                for (lane, events) in wait_queue.polled_lanes() {
                    let bucket = bucket_of(lane);
                    if bucket % TURNS == turn {
                        let polled = polled.entry(place_of(bucket)).or_default();
                        polled.awaited.push((source.clone(), lane, events));
                    }
                }
            } else if left_since.is_some_and(|since| wait_queue.is_left_since(since)) {
                for lane in wait_queue.take_registrations() {
                    let polled = polled.entry(place_of(bucket_of(lane))).or_default();
                    polled.left.push(source.clone());
                }
            }
            !wait_queue.is_idle()
        });
        polled
    }

    /// Asks a bucket which of these lanes may have jobs, and rings their wait queues. If the call fails it rings all:
    /// their own calls then fail too, and are repeated until they succeed ([`super::retry`]).
    pub(super) async fn poll(self: &Arc<Self>, pool: &Pool, bucket: u16, lanes: &[PolledLane]) {
        for lanes in lanes.chunks(POLL_QUEUES_MAX) {
            let queues = lanes.iter().map(|(source, ..)| PolledQueue {
                queue: &source.queue,
                group_max_running: pool.policies.group_max_running(&source.queue),
            });
            let may_have_jobs = match pool.store().poll(bucket, queues).await {
                Ok(may_have_jobs) => may_have_jobs,
                Err(_) => vec![true; lanes.len()],
            };
            for ((source, lane, events), may_have_jobs) in lanes.iter().zip(may_have_jobs) {
                if may_have_jobs {
                    self.ring(source, Some(*lane));
                    continue;
                }
                let mut wait_queues = self.wait_queues.lock();
                if let Some(wait_queue) = wait_queues.by_source.get_mut(source) {
                    wait_queue.registered(*lane, *events);
                }
            }
        }
    }
}
