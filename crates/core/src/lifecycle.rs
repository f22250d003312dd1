//! The life of one job as a pure function: the oracle of the model tests, and the picture to read
//! before the scripts.
//!
//! ```text
//!  publish(delay>0) ─► delayed ──due──► ready ──reserve──► leased ──ack──► gone
//!  publish(delay=0) ───────────────────►  ▲                 │
//!                                         ├──release / lease over, tries left ──┤
//!                                         └──respawn── dead ◄──lease over, no tries
//! ```
//!
//! A job whose time to live is over is gone from any state but dead, which never expires. A cancelled
//! job is gone from any state but leased: somebody is working on it.

use crate::State;

/// What the lifecycle knows of a job.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Life {
    /// The state the job is in.
    pub state: State,
    /// Deliveries left.
    pub tries_left: u16,
    /// Deliveries made.
    pub attempt: u32,
    /// The next moment: due time or end of the lease.
    pub due_at_ms: u64,
    /// When the job disappears; 0 = never.
    pub expires_at_ms: u64,
}

/// What can happen to a job.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Event {
    /// The pump looks at the job because its due time may have come.
    MoveDue,
    /// A consumer takes the job under a lease of `ttr_ms`.
    Reserve {
        /// The length of the lease.
        ttr_ms: u64,
    },
    /// The job is done. With an attempt only that delivery may say so; without, anybody in any state.
    Ack {
        /// The delivery that says so.
        attempt: Option<u32>,
    },
    /// A delivery that never reached its consumer is taken back.
    Release {
        /// The delivery that is taken back.
        attempt: u32,
    },
    /// The producer no longer wants the job done.
    Cancel,
    /// A dead job gets one more try.
    Respawn {
        /// The new time to live; 0 = never expires.
        ttl_ms: u64,
    },
}

/// What became of the job.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum After {
    /// The event had its effect (or needed none) and the job lives on.
    Lives(Life),
    /// The job is no more.
    Gone,
    /// The event does not apply to the job as it is: nothing changed.
    Refused,
}

/// An instant `duration_ms` after now; 0 stays 0 ("never").
#[must_use]
pub const fn expiry(now_ms: u64, ttl_ms: u64) -> u64 {
    if ttl_ms == 0 { 0 } else { now_ms + ttl_ms }
}

impl Life {
    /// A job just published.
    #[must_use]
    pub const fn published(now_ms: u64, delay_ms: u64, ttl_ms: u64, tries: u16) -> Self {
        Self {
            state: if delay_ms > 0 {
                State::Delayed
            } else {
                State::Ready
            },
            tries_left: tries,
            attempt: 0,
            due_at_ms: now_ms + delay_ms,
            expires_at_ms: expiry(now_ms, ttl_ms),
        }
    }

    /// Whether the job's time to live is over.
    #[must_use]
    pub const fn expired(&self, now_ms: u64) -> bool {
        self.expires_at_ms != 0 && self.expires_at_ms <= now_ms
    }

    /// What becomes of the job when `event` happens at `now_ms`.
    #[must_use]
    pub fn after(self, event: Event, now_ms: u64) -> After {
        if self.expired(now_ms) {
            return After::Gone;
        }
        match (event, self.state) {
            (Event::MoveDue, State::Delayed | State::Leased) => self.moved_when_due(now_ms),
            (Event::MoveDue, State::Ready | State::Dead) => After::Lives(self),
            (Event::Reserve { ttr_ms }, State::Ready) => After::Lives(Self {
                state: State::Leased,
                tries_left: self.tries_left - 1,
                attempt: self.attempt + 1,
                due_at_ms: now_ms + ttr_ms,
                ..self
            }),
            (Event::Ack { attempt: None }, _) => After::Gone,
            (Event::Ack { attempt: Some(a) }, State::Leased) if a == self.attempt => After::Gone,
            (Event::Release { attempt }, State::Leased) if attempt == self.attempt => {
                After::Lives(Self {
                    state: State::Ready,
                    tries_left: self.tries_left + 1,
                    attempt: self.attempt - 1,
                    due_at_ms: now_ms,
                    ..self
                })
            }
            (Event::Cancel, State::Delayed | State::Ready | State::Dead) => After::Gone,
            (Event::Respawn { ttl_ms }, State::Dead) => After::Lives(Self {
                state: State::Ready,
                tries_left: 1,
                due_at_ms: now_ms,
                expires_at_ms: expiry(now_ms, ttl_ms),
                ..self
            }),
            _ => After::Refused,
        }
    }

    const fn moved_when_due(self, now_ms: u64) -> After {
        if self.due_at_ms > now_ms {
            return After::Lives(self);
        }
        if self.tries_left > 0 {
            return After::Lives(Self {
                state: State::Ready,
                ..self
            });
        }
        After::Lives(Self {
            state: State::Dead,
            expires_at_ms: 0,
            ..self
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: u64 = 1_000_000;

    fn lives(after: After) -> Life {
        match after {
            After::Lives(life) => life,
            other => panic!("expected a living job, got {other:?}"),
        }
    }

    #[test]
    fn a_job_uses_its_tries_then_dies_and_may_be_respawned() {
        let mut job = Life::published(NOW, 10, 1000, 2);
        assert_eq!(
            job.after(Event::MoveDue, NOW + 9),
            After::Lives(job),
            "never early"
        );
        job = lives(job.after(Event::MoveDue, NOW + 10));
        for attempt in 1..=2 {
            job = lives(job.after(Event::Reserve { ttr_ms: 5 }, NOW + 20));
            assert_eq!((job.state, job.attempt), (State::Leased, attempt));
            job = lives(job.after(Event::MoveDue, NOW + 25));
        }
        assert_eq!(job.state, State::Dead);
        assert!(!job.expired(u64::MAX), "the dead never expire");
        job = lives(job.after(Event::Respawn { ttl_ms: 0 }, NOW + 30));
        assert_eq!((job.state, job.tries_left), (State::Ready, 1));
    }

    #[test]
    fn only_the_current_delivery_may_ack_by_attempt() {
        let ready = Life::published(NOW, 0, 0, 3);
        let leased = lives(ready.after(Event::Reserve { ttr_ms: 5 }, NOW));
        let late = Event::Ack { attempt: Some(0) };
        assert_eq!(leased.after(late, NOW), After::Refused);
        assert_eq!(
            leased.after(Event::Ack { attempt: Some(1) }, NOW),
            After::Gone
        );
        assert_eq!(leased.after(Event::Ack { attempt: None }, NOW), After::Gone);
        assert_eq!(leased.after(Event::Cancel, NOW), After::Refused);
        assert_eq!(ready.after(Event::Cancel, NOW), After::Gone);
    }

    #[test]
    fn a_release_gives_the_try_back() {
        let ready = Life::published(NOW, 0, 0, 1);
        let leased = lives(ready.after(Event::Reserve { ttr_ms: 5 }, NOW));
        assert_eq!(leased.tries_left, 0);
        assert_eq!(
            lives(leased.after(Event::Release { attempt: 1 }, NOW)),
            ready
        );
    }

    #[test]
    fn expired_jobs_are_gone_whatever_happens() {
        let job = Life::published(NOW, 0, 7, 1);
        assert!(!job.expired(NOW + 6));
        assert_eq!(
            job.after(Event::Reserve { ttr_ms: 1 }, NOW + 7),
            After::Gone
        );
    }
}
