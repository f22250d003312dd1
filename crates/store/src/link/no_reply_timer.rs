//! Detects a connection without replies.

use std::sync::atomic::{AtomicU64, Ordering};

/// Measures for how long there was no reply, from calls that were given up. Each may have waited for a short time only:
/// the time limits of some callers are far below the command timeout. Times are in µs on one clock.
#[derive(Debug, Default)]
pub(super) struct NoReplyTimer {
    /// When the first call began that was given up since the last reply; 0 = there is none.
    since_us: AtomicU64,
}

impl NoReplyTimer {
    /// Records a call that began at `began_us` and is given up at `now_us`. The last reply to any call was received at
    /// `heard_us`. Returns for how long there was no reply, in µs.
    pub(super) fn record_given_up(&self, began_us: u64, now_us: u64, heard_us: u64) -> u64 {
        if heard_us > began_us {
            return 0;
        }
        let known_us = self.since_us.load(Ordering::Relaxed);
        let since_us = match known_us > heard_us {
            true => known_us.min(began_us),
            false => began_us,
        };
        self.since_us.store(since_us, Ordering::Relaxed);
        now_us.saturating_sub(since_us)
    }

    /// Resets it: later calls use another connection.
    pub(super) fn reset(&self) {
        self.since_us.store(0, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn short_calls_add_up_until_there_is_a_reply() {
        let timer = NoReplyTimer::default();
        assert_eq!(timer.record_given_up(100, 110, 90), 10);
        assert_eq!(timer.record_given_up(105, 125, 90), 25);
        assert_eq!(timer.record_given_up(95, 130, 90), 35);
        assert_eq!(
            timer.record_given_up(200, 220, 150),
            20,
            "one call got a reply"
        );
        assert_eq!(
            timer.record_given_up(210, 230, 215),
            0,
            "later calls get replies"
        );
        assert_eq!(timer.record_given_up(300, 330, 215), 30);
        timer.reset();
        assert_eq!(timer.record_given_up(400, 450, 215), 50);
    }
}
