//! Compares the clock of each server once a second with the monotonic clock of this process.
//!
//! A bucket waits until its next timer is due. This time was computed with the clock of its server. If that clock is
//! set forward, timers are due earlier, and no message is sent. If it is set back, nothing needs to be done: buckets
//! only run too early.

use std::collections::HashMap;
use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use tidegate_store::ServerTime;
use tokio::time::{MissedTickBehavior, interval};

use crate::instance::Instance;

/// Interval of checks. After a clock was set forward, a job is late by up to this.
const INTERVAL: Duration = Duration::from_secs(1);
/// Time limit of a check. A server that does not reply is checked the next time.
const LOOK_MAX: Duration = Duration::from_millis(500);
/// A smaller difference is ignored: it may come from a clock that is slewed.
const JUMP_MIN: Duration = Duration::from_millis(100);

/// The last time of each server.
#[derive(Debug, Default)]
struct ServerClocks(HashMap<Arc<str>, ServerTime>);

impl ServerClocks {
    /// Records a time. Returns by how much the clock was set forward since the last one, if it was.
    fn note(&mut self, server: &Arc<str>, time: ServerTime) -> Option<Duration> {
        let last = self.0.insert(Arc::clone(server), time)?;
        let passed_max = time.received_at.saturating_duration_since(last.sent_at);
        let shown = Duration::from_millis(time.now_ms.saturating_sub(last.now_ms));
        let jump = shown.saturating_sub(passed_max);
        (jump > JUMP_MIN).then_some(jump)
    }
}

/// Notifies the pump whenever a clock was set forward, so that it runs all buckets. Never returns.
pub(crate) async fn watch(instance: Arc<Instance>) -> Infallible {
    let mut watched = ServerClocks::default();
    let mut ticks = interval(INTERVAL);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        ticks.tick().await;
        let looks = instance.store.server_times(LOOK_MAX).await;
        for (server, time) in &looks {
            let jump = time.and_then(|time| watched.note(server, time));
            if let Some(jump) = jump {
                tracing::warn!(%server, ?jump, "the clock of redis was set forward: running all buckets now");
                instance.clock_jumped.notify_one();
            }
        }
        // Servers that are no longer in the deployment.
        let is_there = |server: &Arc<str>| looks.iter().any(|(other, _)| other == server);
        watched.0.retain(|server, _| is_there(server));
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
        let mut watched = ServerClocks::default();
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
