//! When the next job is published.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// How far behind its schedule a publish may be. A later publish is left out, so that a pause is not followed by a burst.
const BEHIND_MAX: Duration = Duration::from_secs(1);
const CLOSED_PAUSE: Duration = Duration::from_millis(1);

/// The pace of all publishers together.
#[derive(Debug)]
pub(super) struct SoakPace {
    begin: Instant,
    length: Duration,
    kind: PaceKind,
    next: AtomicU64,
    left_out: AtomicU64,
}

#[derive(Debug, Clone, Copy)]
enum PaceKind {
    /// Jobs per second.
    Open(f64),
    /// As fast as answers come, while no more than this number of jobs has not ended.
    Closed(usize),
}

impl SoakPace {
    /// A fixed number of jobs per second, whether answers come or not.
    pub(super) fn open(rate: f64, length: Duration) -> Self {
        Self::new(PaceKind::Open(rate), length)
    }

    /// As fast as consumers end jobs.
    pub(super) fn closed(pending_max: usize, length: Duration) -> Self {
        Self::new(PaceKind::Closed(pending_max), length)
    }

    fn new(kind: PaceKind, length: Duration) -> Self {
        Self {
            begin: Instant::now(),
            length,
            kind,
            next: AtomicU64::new(0),
            left_out: AtomicU64::new(0),
        }
    }

    /// Number of publishes that were left out.
    pub(super) fn left_out(&self) -> u64 {
        self.left_out.load(Ordering::Relaxed)
    }

    /// Whether this measures the capacity.
    pub(super) fn is_closed(&self) -> bool {
        matches!(self.kind, PaceKind::Closed(_))
    }

    /// Waits for the next publish. `pending` returns the number of jobs that have not ended. Returns `false` at the
    /// end.
    pub(super) async fn next(&self, pending: impl Fn() -> usize) -> bool {
        match self.kind {
            PaceKind::Open(rate) => self.next_slot(rate).await,
            PaceKind::Closed(most) => {
                while pending() > most && self.begin.elapsed() < self.length {
                    tokio::time::sleep(CLOSED_PAUSE).await;
                }
                self.begin.elapsed() < self.length
            }
        }
    }

    async fn next_slot(&self, rate: f64) -> bool {
        loop {
            let slot = self.next.fetch_add(1, Ordering::Relaxed);
            let at = Duration::from_secs_f64(slot as f64 / rate);
            if at >= self.length {
                return false;
            }
            let now = self.begin.elapsed();
            if now <= at + BEHIND_MAX {
                tokio::time::sleep(at.saturating_sub(now)).await;
                return true;
            }
            self.left_out.fetch_add(1, Ordering::Relaxed);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn an_open_pace_has_its_rate_and_leaves_out_what_is_too_late() {
        let pace = SoakPace::open(100.0, Duration::from_millis(200));
        let mut published = 0;
        while pace.next(|| 0).await {
            published += 1;
        }
        assert_eq!(published, 20);
        assert!(pace.begin.elapsed() >= Duration::from_millis(190));
        let pace = SoakPace {
            begin: Instant::now() - Duration::from_secs(3),
            ..SoakPace::open(100.0, Duration::from_secs(10))
        };
        assert!(pace.next(|| 0).await);
        assert!((200..300).contains(&pace.left_out()), "{}", pace.left_out());
    }

    #[tokio::test]
    async fn a_closed_pace_waits_for_consumers() {
        let pace = SoakPace::closed(5, Duration::from_millis(100));
        assert!(pace.next(|| 5).await);
        assert!(!pace.next(|| 6).await);
        assert!(pace.begin.elapsed() >= Duration::from_millis(100));
    }
}
