//! Whether a connection answers anything.

use std::sync::atomic::{AtomicU64, Ordering};

/// How long nothing has been answered, from calls that were given up. Each may have waited for a short time only: the
/// limits of some callers are far below the one of commands. Times are in µs on one clock.
#[derive(Debug, Default)]
pub(super) struct Silence {
    /// When the first of the calls began that were given up since the last answer; 0 = there was none.
    since_us: AtomicU64,
}

impl Silence {
    /// A call that began at `began_us` is given up at `now_us`; the last answer to any call came at `heard_us`. Returns
    /// how long nothing has been answered.
    pub(super) fn given_up(&self, began_us: u64, now_us: u64, heard_us: u64) -> u64 {
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

    /// Further calls go over another connection.
    pub(super) fn over(&self) {
        self.since_us.store(0, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn short_calls_add_up_until_something_is_answered() {
        let silence = Silence::default();
        assert_eq!(silence.given_up(100, 110, 90), 10);
        assert_eq!(silence.given_up(105, 125, 90), 25);
        assert_eq!(silence.given_up(95, 130, 90), 35);
        assert_eq!(silence.given_up(200, 220, 150), 20, "one was answered");
        assert_eq!(silence.given_up(210, 230, 215), 0, "others are answered");
        assert_eq!(silence.given_up(300, 330, 215), 30);
        silence.over();
        assert_eq!(silence.given_up(400, 450, 215), 50);
    }
}
