//! Retries of failed calls for waiting consumers: a few at a time while they fail, all of them once one succeeds.
//!
//! The pace is limited for each pool, not for each wait queue: while Redis is down, thousands of wait queues would
//! otherwise make thousands of failing calls a second.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::{Instant, sleep};

use super::shared::{PoolState, Shared};
use super::source::Source;
use super::wait_queue::WaitQueue;

/// The least pause between two rounds of retries in a pool, and the most that is added to it at random, so that
/// processes do not retry at the same moments.
const PAUSE_MIN: Duration = Duration::from_millis(200);
const JITTER: Duration = Duration::from_millis(100);
/// The most wait queues of a pool that are retried at a time while no retry succeeds.
const LINES_PER_RETRY: usize = 16;

impl Shared {
    /// Retries the failed calls of a pool until they succeed. Never returns; does nothing while no call has failed.
    pub(super) async fn retry(self: &Arc<Self>, state: &PoolState) {
        loop {
            state.retry.wait().await;
            sleep(PAUSE_MIN + JITTER.mul_f64(rand::random())).await;
            let lines_max = match state.retry.take_recovered() {
                true => usize::MAX,
                false => LINES_PER_RETRY,
            };
            if self.retry_lines(&state.pool.name, lines_max) {
                state.retry.failed();
            }
        }
    }

    /// Retries at most `lines_max` wait queues of a pool, those first that were served longest ago. Returns whether
    /// there are more.
    fn retry_lines(self: &Arc<Self>, pool: &Arc<str>, lines_max: usize) -> bool {
        let mut wait_queues = self.wait_queues.lock();
        let failed = wait_queues
            .by_source
            .iter()
            .filter(|(source, wait_queue)| source.pool == *pool && wait_queue.needs_retry());
        let mut failed: Vec<(Option<Instant>, &Source)> = failed
            .map(|(source, wait_queue)| (wait_queue.served_at, source))
            .collect();
        let has_more = failed.len() > lines_max;
        if has_more {
            failed.select_nth_unstable_by_key(lines_max, |(served_at, _)| *served_at);
            failed.truncate(lines_max);
        }
        let chosen: Vec<Source> = failed
            .into_iter()
            .map(|(_, source)| source.clone())
            .collect();
        let mut retry = |source: &Source| {
            wait_queues
                .by_source
                .get_mut(source)
                .is_some_and(WaitQueue::retry)
        };
        let started: Vec<Source> = chosen.into_iter().filter(|source| retry(source)).collect();
        drop(wait_queues);
        for source in started {
            self.spawn_serve_loop(source);
        }
        has_more
    }
}
