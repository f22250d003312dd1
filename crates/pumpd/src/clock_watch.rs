//! Notices that the clock of a Redis was set forward.
//!
//! A bucket is not looked at until its next timer is due, and how long that is was computed from the clock of its
//! server. After that clock was set forward timers are due that much earlier, and no message tells. So once a second the
//! clocks are compared with the one of this process that nobody sets. A clock that was set back needs nothing: buckets are
//! looked at too early then.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use tidegate_store::ServerTime;
use tokio::time::{MissedTickBehavior, interval};

use crate::pump::Pool;

/// A job is late by up to this after a clock was set forward.
const INTERVAL: Duration = Duration::from_secs(1);
/// A server that does not answer within this is looked at the next time.
const LOOK_MAX: Duration = Duration::from_millis(500);
/// Less than this is not told from clocks that are slewed.
const JUMP_MIN: Duration = Duration::from_millis(100);

/// The last look at each server.
#[derive(Debug, Default)]
struct Clocks(HashMap<Arc<str>, ServerTime>);

impl Clocks {
    /// Notes a look. Answers by how much the clock was set forward since the one before, if it was.
    fn note(&mut self, seen: ServerTime) -> Option<Duration> {
        let last = self.0.insert(Arc::clone(&seen.server), seen.clone())?;
        let passed_max = seen.received_at.saturating_duration_since(last.sent_at);
        let shown = Duration::from_millis(seen.now_ms.saturating_sub(last.now_ms));
        let jump = shown.saturating_sub(passed_max);
        (jump > JUMP_MIN).then_some(jump)
    }
}

/// Has all buckets looked at whenever a clock was set forward. Never ends.
pub(crate) async fn watch(pool: Arc<Pool>) {
    let mut clocks = Clocks::default();
    let mut ticks = interval(INTERVAL);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        ticks.tick().await;
        for seen in pool.store.server_times(LOOK_MAX).await {
            let server = Arc::clone(&seen.server);
            if let Some(jump) = clocks.note(seen) {
                tracing::warn!(%server, ?jump, "the clock of Redis was set forward");
                pool.clock_jumped.notify_one();
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Instant;

    use super::*;

    const TOOK: Duration = Duration::from_millis(3);

    fn seen(server: &str, at: Instant, now_ms: u64) -> ServerTime {
        ServerTime {
            server: server.into(),
            now_ms,
            sent_at: at,
            received_at: at + TOOK,
        }
    }

    #[test]
    fn a_clock_that_was_set_forward_is_noticed_once() {
        let begin = Instant::now();
        let at = |ms| begin + Duration::from_millis(ms);
        let mut clocks = Clocks::default();
        assert_eq!(clocks.note(seen("a", at(0), 10_000)), None);
        // Another server has another clock.
        assert_eq!(clocks.note(seen("b", at(0), 90_000)), None);
        assert_eq!(clocks.note(seen("a", at(1000), 11_050)), None);
        let jump = clocks.note(seen("a", at(2000), 27_053));
        assert_eq!(jump, Some(Duration::from_secs(15)));
        assert_eq!(clocks.note(seen("a", at(3000), 28_053)), None);
        // Set back, and forward again.
        assert_eq!(clocks.note(seen("a", at(4000), 14_053)), None);
        assert!(clocks.note(seen("a", at(5000), 30_053)).is_some());
    }
}
