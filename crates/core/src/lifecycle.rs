//! The lifecycle of a job as a pure function. It is the oracle of the model tests; read it before the scripts.
//!
//! ```text
//!  publish(delay>0) ─► delayed ──due──► ready ──reserve──► leased ──ack──► gone
//!  publish(delay=0) ───────────────────►  ▲                 │
//!                                         ├──release / lease expired, tries left ──┤
//!                                         └──respawn── dead ◄──lease expired, no tries left
//! ```
//!
//! A job whose time to live has passed is deleted from any state but dead: dead jobs never expire. A job can be
//! cancelled in any state but leased.

use crate::JobState;

/// The part of a job that the lifecycle depends on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct LifecycleState {
    pub state: JobState,
    /// Deliveries left.
    pub tries_left: u16,
    /// Deliveries made, including deliveries that were taken back. It only grows, so id and attempt identify a delivery
    /// forever.
    pub attempt: u32,
    /// Due time or end of the lease, in ms since 1970.
    pub due_at_ms: u64,
    /// When the job expires, in ms since 1970; 0 = never.
    pub expires_at_ms: u64,
}

/// An event in the life of a job.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LifecycleEvent {
    /// The pump checks the job, because it may be due.
    MoveDue,
    /// A consumer takes the job under a lease of `ttr_ms`.
    Reserve {
        /// The length of the lease, in ms.
        ttr_ms: u64,
    },
    /// The job is done. With an attempt, only that delivery may acknowledge; without, any client in any state.
    Ack {
        /// The delivery that acknowledges.
        attempt: Option<u32>,
    },
    /// A delivery that did not reach its consumer is taken back.
    Release {
        /// The delivery that is taken back.
        attempt: u32,
    },
    /// The producer cancels the job.
    Cancel,
    /// A dead job gets one more try.
    Respawn {
        /// The new time to live, in ms; 0 = never expires.
        ttl_ms: u64,
    },
}

/// The outcome of an event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Transition {
    /// The job exists, changed by the event or not.
    Lives(LifecycleState),
    /// The job is deleted.
    Gone,
    /// The event does not apply in the job's state: nothing changed.
    Refused,
}

/// The instant `ttl_ms` after `now_ms`; 0 if `ttl_ms` is 0: never.
pub const fn expiry(now_ms: u64, ttl_ms: u64) -> u64 {
    if ttl_ms == 0 { 0 } else { now_ms + ttl_ms }
}

impl LifecycleState {
    /// A job that was published at `now_ms`.
    pub const fn published(now_ms: u64, delay_ms: u64, ttl_ms: u64, tries: u16) -> Self {
        Self {
            state: if delay_ms > 0 {
                JobState::Delayed
            } else {
                JobState::Ready
            },
            tries_left: tries,
            attempt: 0,
            due_at_ms: now_ms + delay_ms,
            expires_at_ms: expiry(now_ms, ttl_ms),
        }
    }

    /// Whether the job's time to live has passed.
    pub const fn expired(&self, now_ms: u64) -> bool {
        self.expires_at_ms != 0 && self.expires_at_ms <= now_ms
    }

    /// The outcome of `event` at `now_ms`.
    #[must_use]
    pub fn apply(self, event: LifecycleEvent, now_ms: u64) -> Transition {
        if self.expired(now_ms) {
            return Transition::Gone;
        }
        match (event, self.state) {
            (LifecycleEvent::MoveDue, JobState::Delayed | JobState::Leased) => {
                self.moved_when_due(now_ms)
            }
            (LifecycleEvent::MoveDue, JobState::Ready | JobState::Dead) => Transition::Lives(self),
            (LifecycleEvent::Reserve { ttr_ms }, JobState::Ready) => Transition::Lives(Self {
                state: JobState::Leased,
                tries_left: self.tries_left - 1,
                attempt: self.attempt + 1,
                due_at_ms: now_ms + ttr_ms,
                ..self
            }),
            (LifecycleEvent::Ack { attempt: None }, _) => Transition::Gone,
            (LifecycleEvent::Ack { attempt: Some(a) }, JobState::Leased) if a == self.attempt => {
                Transition::Gone
            }
            (LifecycleEvent::Release { attempt }, JobState::Leased) if attempt == self.attempt => {
                Transition::Lives(Self {
                    state: JobState::Ready,
                    tries_left: self.tries_left + 1,
                    due_at_ms: now_ms,
                    ..self
                })
            }
            (LifecycleEvent::Cancel, JobState::Delayed | JobState::Ready | JobState::Dead) => {
                Transition::Gone
            }
            (LifecycleEvent::Respawn { ttl_ms }, JobState::Dead) => Transition::Lives(Self {
                state: JobState::Ready,
                tries_left: 1,
                due_at_ms: now_ms,
                expires_at_ms: expiry(now_ms, ttl_ms),
                ..self
            }),
            _ => Transition::Refused,
        }
    }

    const fn moved_when_due(self, now_ms: u64) -> Transition {
        if self.due_at_ms > now_ms {
            return Transition::Lives(self);
        }
        if self.tries_left > 0 {
            return Transition::Lives(Self {
                state: JobState::Ready,
                ..self
            });
        }
        Transition::Lives(Self {
            state: JobState::Dead,
            due_at_ms: now_ms,
            expires_at_ms: 0,
            ..self
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: u64 = 1_000_000;

    fn lives(after: Transition) -> LifecycleState {
        match after {
            Transition::Lives(life) => life,
            other => panic!("expected a live job, got {other:?}"),
        }
    }

    #[test]
    fn a_job_dies_after_its_last_try_and_can_be_respawned() {
        let mut job = LifecycleState::published(NOW, 10, 1000, 2);
        assert_eq!(
            job.apply(LifecycleEvent::MoveDue, NOW + 9),
            Transition::Lives(job),
            "never early"
        );
        job = lives(job.apply(LifecycleEvent::MoveDue, NOW + 10));
        for attempt in 1..=2 {
            job = lives(job.apply(LifecycleEvent::Reserve { ttr_ms: 5 }, NOW + 20));
            assert_eq!((job.state, job.attempt), (JobState::Leased, attempt));
            job = lives(job.apply(LifecycleEvent::MoveDue, NOW + 25));
        }
        assert_eq!(job.state, JobState::Dead);
        assert!(!job.expired(u64::MAX), "the dead never expire");
        job = lives(job.apply(LifecycleEvent::Respawn { ttl_ms: 0 }, NOW + 30));
        assert_eq!((job.state, job.tries_left), (JobState::Ready, 1));
    }

    #[test]
    fn only_the_current_delivery_may_ack_by_attempt() {
        let ready = LifecycleState::published(NOW, 0, 0, 3);
        let leased = lives(ready.apply(LifecycleEvent::Reserve { ttr_ms: 5 }, NOW));
        let late = LifecycleEvent::Ack { attempt: Some(0) };
        assert_eq!(leased.apply(late, NOW), Transition::Refused);
        assert_eq!(
            leased.apply(LifecycleEvent::Ack { attempt: Some(1) }, NOW),
            Transition::Gone
        );
        assert_eq!(
            leased.apply(LifecycleEvent::Ack { attempt: None }, NOW),
            Transition::Gone
        );
        assert_eq!(
            leased.apply(LifecycleEvent::Cancel, NOW),
            Transition::Refused
        );
        assert_eq!(ready.apply(LifecycleEvent::Cancel, NOW), Transition::Gone);
    }

    #[test]
    fn a_release_gives_the_try_back() {
        let ready = LifecycleState::published(NOW, 0, 0, 1);
        let leased = lives(ready.apply(LifecycleEvent::Reserve { ttr_ms: 5 }, NOW));
        assert_eq!(leased.tries_left, 0);
        let released = lives(leased.apply(LifecycleEvent::Release { attempt: 1 }, NOW));
        assert_eq!(
            released,
            LifecycleState {
                attempt: 1,
                ..ready
            }
        );
        let again = lives(released.apply(LifecycleEvent::Reserve { ttr_ms: 5 }, NOW));
        let repeated = LifecycleEvent::Release { attempt: 1 };
        assert_eq!(again.apply(repeated, NOW), Transition::Refused);
    }

    #[test]
    fn an_expired_job_is_gone_after_any_event() {
        let job = LifecycleState::published(NOW, 0, 7, 1);
        assert!(!job.expired(NOW + 6));
        assert_eq!(
            job.apply(LifecycleEvent::Reserve { ttr_ms: 1 }, NOW + 7),
            Transition::Gone
        );
    }
}
