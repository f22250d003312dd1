//! Looks at the clock of each server once a second.
//!
//! A bucket is not looked at until its next timer is due, and how long that is was computed from the clock of its server.
//! After that clock was set forward timers are due that much earlier, and no message tells. So clocks are compared with
//! the monotonic one of this process. A clock that was set back needs nothing: buckets are looked at too early then.

use std::collections::HashMap;
use std::convert::Infallible;
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

/// What the clocks of the servers showed last.
#[derive(Debug, Default)]
struct Watched(HashMap<Arc<str>, ServerTime>);

impl Watched {
    /// Notes a look. Answers by how much the clock was set forward since the last answer, if it was.
    fn note(&mut self, server: &Arc<str>, time: ServerTime) -> Option<Duration> {
        let last = self.0.insert(Arc::clone(server), time)?;
        let passed_max = time.received_at.saturating_duration_since(last.sent_at);
        let shown = Duration::from_millis(time.now_ms.saturating_sub(last.now_ms));
        let jump = shown.saturating_sub(passed_max);
        (jump > JUMP_MIN).then_some(jump)
    }

    /// Forgets servers that are none of the deployment any more.
    fn retain(&mut self, servers: &[Arc<str>]) {
        self.0.retain(|server, _| servers.contains(server));
    }
}

/// Has all buckets looked at whenever a clock was set forward. Never ends.
pub(crate) async fn watch(pool: Arc<Pool>) -> Infallible {
    let mut watched = Watched::default();
    let mut ticks = interval(INTERVAL);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        ticks.tick().await;
        let looks = pool.store.server_times(LOOK_MAX).await;
        for (server, time) in &looks {
            let jump = time.and_then(|time| watched.note(server, time));
            if let Some(jump) = jump {
                tracing::warn!(%server, ?jump, "the clock of Redis was set forward");
                pool.clock_jumped.notify_one();
            }
        }
        let servers: Vec<Arc<str>> = looks.into_iter().map(|(server, _)| server).collect();
        watched.retain(&servers);
    }
}

#[cfg(test)]
mod tests {
    use std::time::Instant;

    use super::*;

    const TOOK: Duration = Duration::from_millis(3);

    fn time(at: Instant, now_ms: u64) -> ServerTime {
        ServerTime {
            now_ms,
            sent_at: at,
            received_at: at + TOOK,
        }
    }

    #[test]
    fn a_clock_that_was_set_forward_is_noticed_once() {
        let begin = Instant::now();
        let at = |ms| begin + Duration::from_millis(ms);
        let (a, b): (Arc<str>, Arc<str>) = ("a".into(), "b".into());
        let mut watched = Watched::default();
        let mut note = |server, ms, now_ms| watched.note(server, time(at(ms), now_ms));
        assert_eq!(note(&a, 0, 10_000), None);
        // Another server has another clock.
        assert_eq!(note(&b, 0, 90_000), None);
        assert_eq!(note(&a, 1000, 11_050), None);
        assert_eq!(note(&a, 2000, 27_053), Some(Duration::from_secs(15)));
        assert_eq!(note(&a, 3000, 28_053), None);
        // Set back, and forward again.
        assert_eq!(note(&a, 4000, 14_053), None);
        assert!(note(&a, 5000, 30_053).is_some());
    }
}
