//! Looks at each server once a second: whether it answers, and what its clock shows.
//!
//! **A server that does not answer for longer than the lease** is named on the roster. Others that reach it lead its
//! buckets then.
//!
//! **A clock that was set forward.** A bucket is not looked at until its next timer is due, and how long that is was computed
//! from the clock of its server. After that clock was set forward timers are due that much earlier, and no message tells. So
//! clocks are compared with the one of this process that nobody sets. A clock that was set back needs nothing: buckets are
//! looked at too early then.

use std::collections::HashMap;
use std::convert::Infallible;
use std::sync::Arc;
use std::time::{Duration, Instant};

use tidegate_store::ServerTime;
use tokio::time::{MissedTickBehavior, interval};

use crate::pump::Pool;

/// A job is late by up to this after a clock was set forward.
const INTERVAL: Duration = Duration::from_secs(1);
/// A server that does not answer within this is looked at the next time.
const LOOK_MAX: Duration = Duration::from_millis(500);
/// Less than this is not told from clocks that are slewed.
const JUMP_MIN: Duration = Duration::from_millis(100);

/// What is known of a server.
#[derive(Debug, Clone, Copy)]
struct Known {
    /// When it answered last, or was looked at first.
    answered_at: Instant,
    time: Option<ServerTime>,
}

/// The servers of the deployment, as far as they were looked at.
#[derive(Debug, Default)]
struct Watched(HashMap<Arc<str>, Known>);

impl Watched {
    /// Notes a look. Answers by how much the clock was set forward since the last answer, if it was.
    fn note(
        &mut self,
        server: &Arc<str>,
        time: Option<ServerTime>,
        now: Instant,
    ) -> Option<Duration> {
        let known = self.0.entry(Arc::clone(server)).or_insert(Known {
            answered_at: now,
            time: None,
        });
        let time = time?;
        known.answered_at = time.received_at;
        let last = known.time.replace(time)?;
        let passed_max = time.received_at.saturating_duration_since(last.sent_at);
        let shown = Duration::from_millis(time.now_ms.saturating_sub(last.now_ms));
        let jump = shown.saturating_sub(passed_max);
        (jump > JUMP_MIN).then_some(jump)
    }

    /// Forgets servers that are none of the deployment any more.
    fn retain(&mut self, servers: &[Arc<str>]) {
        self.0.retain(|server, _| servers.contains(server));
    }

    /// Those that have not answered for longer than `limit`.
    fn silent(&self, limit: Duration, now: Instant) -> Vec<Arc<str>> {
        let is_silent = |known: &Known| now.saturating_duration_since(known.answered_at) > limit;
        let silent = self.0.iter().filter(|(_, known)| is_silent(known));
        let mut silent: Vec<Arc<str>> = silent.map(|(server, _)| Arc::clone(server)).collect();
        silent.sort_unstable();
        silent
    }
}

/// Names servers that do not answer, and has all buckets looked at whenever a clock was set forward. Never ends.
pub(crate) async fn watch(pool: Arc<Pool>) -> Infallible {
    let mut watched = Watched::default();
    let mut ticks = interval(INTERVAL);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        ticks.tick().await;
        let looks = pool.store.server_times(LOOK_MAX).await;
        let now = Instant::now();
        for (server, time) in &looks {
            if let Some(jump) = watched.note(server, *time, now) {
                tracing::warn!(%server, ?jump, "the clock of Redis was set forward");
                pool.clock_jumped.notify_one();
            }
        }
        let servers: Vec<Arc<str>> = looks.into_iter().map(|(server, _)| server).collect();
        watched.retain(&servers);
        pool.set_cut_off(watched.silent(pool.config.lease, now));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TOOK: Duration = Duration::from_millis(3);
    const LEASE: Duration = Duration::from_secs(3);

    fn time(at: Instant, now_ms: u64) -> Option<ServerTime> {
        Some(ServerTime {
            now_ms,
            sent_at: at,
            received_at: at + TOOK,
        })
    }

    #[test]
    fn a_clock_that_was_set_forward_is_noticed_once() {
        let begin = Instant::now();
        let at = |ms| begin + Duration::from_millis(ms);
        let (a, b): (Arc<str>, Arc<str>) = ("a".into(), "b".into());
        let mut watched = Watched::default();
        let mut note = |server, ms, now_ms| watched.note(server, time(at(ms), now_ms), at(ms));
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

    #[test]
    fn a_server_is_silent_when_it_has_not_answered_for_a_lease() {
        let begin = Instant::now();
        let at = |s| begin + Duration::from_secs(s);
        let (a, b): (Arc<str>, Arc<str>) = ("a".into(), "b".into());
        let mut watched = Watched::default();
        for s in 0..6 {
            assert_eq!(watched.note(&a, time(at(s), 1000 * s), at(s)), None);
            // It has never answered.
            assert_eq!(watched.note(&b, None, at(s)), None);
            let expected: Vec<Arc<str>> = if s > 3 {
                vec![Arc::clone(&b)]
            } else {
                Vec::new()
            };
            assert_eq!(watched.silent(LEASE, at(s)), expected, "{s}");
        }
        watched.note(&b, time(at(6), 6000), at(6));
        assert!(watched.silent(LEASE, at(6)).is_empty());
        watched.retain(&[a]);
        assert!(
            watched
                .silent(LEASE, at(60))
                .iter()
                .all(|server| &**server != "b")
        );
    }
}
