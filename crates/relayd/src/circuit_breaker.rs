//! Stops a relay while its sink is unavailable, and tries one job from time to time.

use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::MutexGuard;
use tokio::time::Instant;

/// The calls that the relay may make.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum BreakerPermit {
    /// Reserve jobs.
    Flow,
    /// Reserve one job, and wait for its outcome.
    Probe,
    /// Reserve no job until then.
    Wait(Instant),
}

/// A circuit breaker. It opens after some calls in a row to a sink that is unavailable. After a pause one job is tried:
/// if the sink is unavailable still, the next pause is twice as long.
#[derive(Debug)]
pub(crate) struct CircuitBreaker {
    failures: u32,
    first_pause: Duration,
    longest_pause: Duration,
    phase: Mutex<BreakerPhase>,
    /// Held while a job is tried.
    probing: tokio::sync::Mutex<()>,
}

#[derive(Debug, Clone, Copy)]
enum BreakerPhase {
    Closed {
        /// Calls in a row to an unavailable sink.
        unavailable: u32,
    },
    Open {
        until: Instant,
        pause: Duration,
    },
}

impl CircuitBreaker {
    pub(crate) const fn new(failures: u32, first_pause: Duration, longest_pause: Duration) -> Self {
        Self {
            failures,
            first_pause,
            longest_pause,
            phase: Mutex::new(BreakerPhase::Closed { unavailable: 0 }),
            probing: tokio::sync::Mutex::const_new(()),
        }
    }

    pub(crate) fn permit(&self, now: Instant) -> BreakerPermit {
        match *self.phase.lock() {
            BreakerPhase::Closed { .. } => BreakerPermit::Flow,
            BreakerPhase::Open { until, .. } if now < until => BreakerPermit::Wait(until),
            BreakerPhase::Open { .. } => BreakerPermit::Probe,
        }
    }

    /// Waits until no other job is tried. Returns `None` if the sink need not be tried then. Callers keep the guard
    /// until they have recorded the outcome.
    pub(crate) async fn probe(&self) -> Option<MutexGuard<'_, ()>> {
        let probing = self.probing.lock().await;
        (self.permit(Instant::now()) == BreakerPermit::Probe).then_some(probing)
    }

    /// The sink took or rejected a job. Returns whether this closed the breaker.
    pub(crate) fn record_available(&self) -> bool {
        let closed = BreakerPhase::Closed { unavailable: 0 };
        let before = std::mem::replace(&mut *self.phase.lock(), closed);
        matches!(before, BreakerPhase::Open { .. })
    }

    /// A call found the sink unavailable. Returns whether this opened the breaker.
    pub(crate) fn record_unavailable(&self, now: Instant) -> bool {
        let mut phase = self.phase.lock();
        match *phase {
            BreakerPhase::Closed { unavailable } if unavailable + 1 < self.failures => {
                *phase = BreakerPhase::Closed {
                    unavailable: unavailable + 1,
                };
                false
            }
            BreakerPhase::Closed { .. } => {
                *phase = self.open(now, self.first_pause);
                true
            }
            // A call that began before the breaker opened.
            BreakerPhase::Open { until, .. } if now < until => false,
            BreakerPhase::Open { pause, .. } => {
                *phase = self.open(now, pause * 2);
                false
            }
        }
    }

    fn open(&self, now: Instant, pause: Duration) -> BreakerPhase {
        let pause = pause.min(self.longest_pause);
        BreakerPhase::Open {
            until: now + pause,
            pause,
        }
    }

    /// How long the relay keeps off a sink that was unavailable for some jobs.
    pub(crate) const fn first_pause(&self) -> Duration {
        self.first_pause
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    #[tokio::test(start_paused = true)]
    async fn pauses_are_doubled_up_to_the_longest_and_one_success_closes() {
        let breaker = CircuitBreaker::new(3, SECOND, SECOND * 3);
        let begin = Instant::now();
        assert!(!breaker.record_unavailable(begin) && !breaker.record_unavailable(begin));
        assert!(!breaker.record_available(), "it was closed");
        assert!(!breaker.record_unavailable(begin) && !breaker.record_unavailable(begin));
        assert_eq!(breaker.permit(begin), BreakerPermit::Flow);
        assert!(breaker.record_unavailable(begin), "the third in a row");
        let mut now = begin;
        for pause in [SECOND, SECOND * 2, SECOND * 3, SECOND * 3] {
            assert_eq!(breaker.permit(now), BreakerPermit::Wait(now + pause));
            assert!(!breaker.record_unavailable(now), "a call that began before");
            assert_eq!(breaker.permit(now), BreakerPermit::Wait(now + pause));
            now += pause;
            assert_eq!(breaker.permit(now), BreakerPermit::Probe);
            assert!(!breaker.record_unavailable(now));
        }
        assert!(breaker.record_available());
        assert_eq!(breaker.permit(now), BreakerPermit::Flow);
    }
}
