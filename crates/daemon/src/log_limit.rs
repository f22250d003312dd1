//! Limits how often a message is logged that each of thousands of requests may cause.

use std::sync::LazyLock;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// At most one message within an interval.
#[derive(Debug)]
pub struct LogLimit {
    interval: Duration,
    /// When the last message was logged, in milliseconds from the first use of any limit, plus one; 0 = never.
    last_ms: AtomicU64,
}

impl LogLimit {
    /// At most one message each `interval`, which is counted from the last message.
    #[must_use]
    pub const fn every(interval: Duration) -> Self {
        Self {
            interval,
            last_ms: AtomicU64::new(0),
        }
    }

    /// Whether the message may be logged now: `true` for one of all callers within the interval.
    pub fn is_due(&self) -> bool {
        static BEGAN_AT: LazyLock<Instant> = LazyLock::new(Instant::now);
        let now_ms = millis(BEGAN_AT.elapsed()).saturating_add(1);
        let interval_ms = millis(self.interval);
        let next = |last_ms: u64| {
            let is_due = last_ms == 0 || now_ms.saturating_sub(last_ms) >= interval_ms;
            is_due.then_some(now_ms)
        };
        let order = Ordering::Relaxed;
        self.last_ms.fetch_update(order, order, next).is_ok()
    }
}

fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use std::thread;

    use super::*;

    #[test]
    fn one_of_many_callers_logs() {
        let limit = LogLimit::every(Duration::from_secs(3600));
        let due = AtomicU64::new(0);
        thread::scope(|scope| {
            for _ in 0..8 {
                scope.spawn(|| {
                    for _ in 0..1000 {
                        due.fetch_add(u64::from(limit.is_due()), Ordering::Relaxed);
                    }
                });
            }
        });
        assert_eq!(due.into_inner(), 1);
    }

    #[test]
    fn the_message_is_due_again_after_the_interval() {
        let interval = Duration::from_millis(20);
        let limit = LogLimit::every(interval);
        for _ in 0..2 {
            assert!(limit.is_due());
            let due_at = Instant::now() + interval;
            while Instant::now() < due_at {
                thread::yield_now();
            }
        }
    }
}
