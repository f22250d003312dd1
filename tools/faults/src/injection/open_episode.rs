//! Limits and episodes that all fault injections use.

use std::time::Duration;

use crate::fault::{Class, PlannedFault};
use crate::history::{Episode, Span, UnixMicros, now};

pub(super) const MS: u64 = 1000;
/// How long daemons may need to recover after Redis works again, in µs.
pub(super) const RECOVERY: u64 = 2000 * MS;
/// How long other pumps may need to take over after a lease has expired, in µs.
pub(super) const TAKEOVER: u64 = 1000 * MS;
/// How long it may take to detect a silent connection, in µs: a subscription is pinged every 5 s, and has 5 s to
/// answer.
pub(super) const SILENCE_NOTICED: u64 = 10_000 * MS;
/// Replication lag, in µs: usually some ms, on a busy machine more.
pub(super) const REPLICATION: u64 = 1000 * MS;
/// How long calls to a silent master may still fail, in µs.
pub(super) const CALLS_FAIL: u64 = 3000 * MS;
/// How long a replaced master may still acknowledge writes until it is demoted.
pub(super) const DEMOTED: Duration = Duration::from_secs(2);

impl PlannedFault {
    pub(super) const fn length(&self) -> Duration {
        Duration::from_millis(self.length_ms)
    }

    /// Selects one of `ways` variants.
    pub(super) const fn variant_of(&self, ways: u32) -> u32 {
        self.variant % ways
    }
}

/// An episode that has not ended.
pub(super) struct OpenEpisode {
    pub(super) class: Class,
    pub(super) from: UnixMicros,
}

impl OpenEpisode {
    pub(super) fn start(fault: &PlannedFault) -> Self {
        Self {
            class: fault.class,
            from: now(),
        }
    }

    /// Ends it now; it excuses nothing.
    pub(super) fn end(self, what: String) -> Episode {
        Episode {
            class: self.class,
            what,
            span: Span {
                from: self.from,
                to: now(),
            },
            excuses_until: self.from,
            may_lose: None,
            unaffected_queues: Vec::new(),
            unaffected_from: 0,
            idle_closed: Vec::new(),
        }
    }

    /// Ends it now; it excuses late jobs until `after` µs after its end.
    pub(super) fn end_excusing(self, what: String, after: u64) -> Episode {
        let episode = self.end(what);
        Episode {
            excuses_until: episode.span.to + after,
            ..episode
        }
    }
}

/// Repeats an action for a while.
pub(super) async fn repeat_for(length: Duration, pause: Duration, mut what: impl AsyncFnMut()) {
    let end = tokio::time::Instant::now() + length;
    while tokio::time::Instant::now() < end {
        what().await;
        tokio::time::sleep(pause).await;
    }
}
