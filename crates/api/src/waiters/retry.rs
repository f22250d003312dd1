//! Calls for waiting consumers that failed are repeated: a few at a time while they fail, all of them as soon
//! as one succeeds.
//!
//! The pace is that of a pool, not of a line: thousands of lines would otherwise mean thousands of failing calls
//! a second while Redis is down.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use tokio::sync::Notify;
use tokio::time::{Instant, sleep};

use super::{Inner, Line, Pool, Source};

/// The shortest time between two rounds of retries in a pool, and what is added to it at random, so that
/// processes do not retry in step.
const PAUSE_MIN: Duration = Duration::from_millis(200);
const JITTER: Duration = Duration::from_millis(100);
/// Lines of a pool that are retried at a time while no retry succeeds.
const LINES_PER_RETRY: usize = 16;

/// What the serve loops of a pool report to its retries.
#[derive(Debug, Default)]
pub(super) struct RetrySignal {
    /// There is something to do.
    changed: Notify,
    /// A call succeeded where the one before had failed.
    recovered: AtomicBool,
}

impl RetrySignal {
    /// A call failed.
    pub(super) fn failed(&self) {
        self.changed.notify_one();
    }

    /// A call succeeded where the one before had failed.
    pub(super) fn recovered(&self) {
        self.recovered.store(true, Ordering::Relaxed);
        self.changed.notify_one();
    }
}

impl Inner {
    /// Repeats the failed calls of a pool until they succeed, for ever. Does nothing while none has failed.
    pub(super) async fn retry(self: &Arc<Self>, name: &Arc<str>, pool: &Pool) {
        loop {
            pool.retry.changed.notified().await;
            sleep(PAUSE_MIN + JITTER.mul_f64(rand::random())).await;
            let lines_max = match pool.retry.recovered.swap(false, Ordering::Relaxed) {
                true => usize::MAX,
                false => LINES_PER_RETRY,
            };
            if self.retry_lines(name, lines_max) {
                pool.retry.changed.notify_one();
            }
        }
    }

    /// Retries so many lines of a pool, those first that were served longest ago. Whether there are more.
    fn retry_lines(self: &Arc<Self>, pool: &Arc<str>, lines_max: usize) -> bool {
        let mut lines = self.lock();
        let failed = lines
            .by_source
            .iter()
            .filter(|(source, line)| source.pool == *pool && line.needs_retry());
        let mut failed: Vec<(Option<Instant>, &Source)> = failed
            .map(|(source, line)| (line.poll_at, source))
            .collect();
        let has_more = failed.len() > lines_max;
        if has_more {
            failed.select_nth_unstable_by_key(lines_max, |(poll_at, _)| *poll_at);
            failed.truncate(lines_max);
        }
        let chosen: Vec<Source> = failed
            .into_iter()
            .map(|(_, source)| source.clone())
            .collect();
        let mut retry = |source: &Source| lines.by_source.get_mut(source).is_some_and(Line::retry);
        let started: Vec<Source> = chosen.into_iter().filter(|source| retry(source)).collect();
        drop(lines);
        for source in started {
            self.spawn_serving(source);
        }
        has_more
    }
}
