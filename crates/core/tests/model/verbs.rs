//! The scripts, each one step. What becomes of a job is always what [`Life::after`] says; what is
//! modelled here is how scripts find the job, and what they do to its hints.

use tidegate_core::State;
use tidegate_core::lifecycle::{After, Event, Life};

use crate::bucket::{Bucket, Changes, Number, Pump};
use crate::planted::Planted;

/// The least time between two looks of the sweep.
pub(crate) const SWEEP_PAUSE_MS: u64 = 1;

/// What a producer asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct Terms {
    pub(crate) delay_ms: u64,
    pub(crate) ttl_ms: u64,
    pub(crate) tries: u16,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Outcome {
    Done,
    Refused,
    Gone,
}

impl Bucket {
    pub(crate) fn publish(&mut self, terms: Terms, now_ms: u64) -> Number {
        let mut changes = Changes::default();
        let number = self.records.len();
        let life = Life::published(now_ms, terms.delay_ms, terms.ttl_ms, terms.tries);
        self.records.push(Some(life));
        if life.state == State::Ready {
            changes.arrive(number);
        } else {
            changes.count(life.state, 1);
            if !self.has(Planted::PublishSetsNoTimer) {
                self.hint(number, life.due_at_ms, now_ms);
            }
        }
        self.expire_later(life);
        self.settle(changes);
        number
    }

    /// The job that was leased, and its attempt.
    pub(crate) fn reserve(&mut self, ttr_ms: u64, now_ms: u64) -> Option<(Number, u32)> {
        let mut changes = Changes::default();
        let leased = self.next_live(now_ms, &mut changes).map(|(number, life)| {
            changes.count(life.state, -1);
            let life = reserved(life, ttr_ms, now_ms);
            changes.count(life.state, 1);
            self.write(number, life);
            self.hint(number, life.due_at_ms, now_ms);
            (number, life.attempt)
        });
        self.settle(changes);
        leased
    }

    fn next_live(&mut self, now_ms: u64, changes: &mut Changes) -> Option<(Number, Life)> {
        while !self.ready.is_empty() {
            let number = self.ready.remove(0);
            let mut found = self.hinted(number, State::Ready);
            if self.has(Planted::ReserveTrustsHint) {
                found = found.or(Some(Life::published(now_ms, 0, 0, 1)));
            }
            match found {
                Some(life) if life.expired(now_ms) && !self.has(Planted::ReserveIgnoresExpiry) => {
                    self.delete(number, life, changes);
                }
                Some(life) => return Some((number, life)),
                None => {}
            }
        }
        None
    }

    pub(crate) fn ack(&mut self, number: Number, attempt: Option<u32>, now_ms: u64) -> Outcome {
        let attempt = match self.has(Planted::AckIgnoresAttempt) {
            true => self
                .record(number)
                .map(|life| life.attempt)
                .filter(|_| attempt.is_some()),
            false => attempt,
        };
        self.delete_if(number, Event::Ack { attempt }, now_ms)
    }

    pub(crate) fn cancel(&mut self, number: Number, now_ms: u64) -> Outcome {
        self.delete_if(number, Event::Cancel, now_ms)
    }

    fn delete_if(&mut self, number: Number, event: Event, now_ms: u64) -> Outcome {
        let Some(life) = self.find(number, now_ms) else {
            return Outcome::Gone;
        };
        if life.after(event, now_ms) != After::Gone {
            return Outcome::Refused;
        }
        let mut changes = Changes::default();
        self.delete(number, life, &mut changes);
        self.settle(changes);
        Outcome::Done
    }

    pub(crate) fn release(&mut self, number: Number, attempt: u32, now_ms: u64) -> Outcome {
        let Some(life) = self.find(number, now_ms) else {
            return Outcome::Gone;
        };
        let After::Lives(ready) = life.after(Event::Release { attempt }, now_ms) else {
            return Outcome::Refused;
        };
        let mut changes = Changes::default();
        self.near.remove(&number);
        changes.count(life.state, -1);
        changes.count(ready.state, 1);
        self.write(number, ready);
        self.settle(changes);
        self.ready.insert(0, number);
        Outcome::Done
    }

    /// The oldest dead job gets one more try.
    pub(crate) fn respawn(&mut self, ttl_ms: u64, now_ms: u64) -> Option<Number> {
        let mut changes = Changes::default();
        let number = (!self.dead.is_empty()).then(|| self.dead.remove(0))?;
        let respawned = self.hinted(number, State::Dead).and_then(|life| {
            let After::Lives(ready) = life.after(Event::Respawn { ttl_ms }, now_ms) else {
                return None;
            };
            changes.count(life.state, -1);
            changes.arrive(number);
            self.write(number, ready);
            self.expire_later(ready);
            Some(number)
        });
        self.settle(changes);
        respawned
    }

    /// Whether there was something to load.
    pub(crate) fn load_slot(&mut self, pump: Pump, now_ms: u64) -> bool {
        if self.lock != Some(pump) {
            return false;
        }
        let Some(slot) = self.slot_to_load(now_ms) else {
            return false;
        };
        // The limit of hints a call is one: a slot may be half loaded when something else happens.
        let Some(hints) = self.far.get_mut(&slot) else {
            return false;
        };
        let (number, at_ms) = hints.remove(0);
        if hints.is_empty() {
            self.far.remove(&slot);
        }
        let score = match self.near.get(&number) {
            Some(known) if !self.has(Planted::LoadSetsBackTimers) => at_ms.min(*known),
            _ => at_ms,
        };
        self.near.insert(number, score);
        true
    }

    /// Looks at one hint that is due. Whether there was one.
    pub(crate) fn move_due(&mut self, pump: Pump, now_ms: u64) -> bool {
        if self.lock != Some(pump) {
            return false;
        }
        let due = self.near.iter().filter(|(_, at_ms)| **at_ms <= now_ms);
        let Some(number) = due
            .min_by_key(|(number, at_ms)| (**at_ms, **number))
            .map(|(n, _)| *n)
        else {
            return false;
        };
        let mut changes = Changes::default();
        let waits = |life: &Life| matches!(life.state, State::Delayed | State::Leased);
        let job = self
            .record(number)
            .filter(|life| waits(life) || self.has(Planted::MoveTrustsHint));
        self.near.remove(&number);
        if let Some(life) = job {
            self.move_job(number, life, now_ms, &mut changes);
        }
        self.settle(changes);
        true
    }

    fn move_job(&mut self, number: Number, life: Life, now_ms: u64, changes: &mut Changes) {
        let asked = match self.has(Planted::MoveTrustsHint) {
            true => Life {
                state: State::Delayed,
                due_at_ms: now_ms,
                ..life
            },
            false => life,
        };
        match asked.after(Event::MoveDue, now_ms) {
            After::Gone => self.delete(number, life, changes),
            After::Lives(moved) if moved.state == life.state => {
                if !self.has(Planted::MoveDropsEarlyHint) {
                    self.hint(number, life.due_at_ms, now_ms);
                }
            }
            After::Lives(moved) => {
                changes.count(life.state, -1);
                if moved.state == State::Ready {
                    changes.arrive(number);
                } else {
                    changes.count(State::Dead, 1);
                    self.dead.push(number);
                }
                self.write(number, moved);
            }
            After::Refused => {}
        }
    }

    /// Deletes what has expired. Whether the chunk was looked at.
    pub(crate) fn sweep(&mut self, pump: Pump, now_ms: u64) -> bool {
        if self.lock != Some(pump) || self.expiry.is_none_or(|at_ms| at_ms > now_ms) {
            return false;
        }
        let mut changes = Changes::default();
        let mut next_ms: Option<u64> = None;
        for number in 0..self.records.len() {
            let Some(life) = self.record(number).filter(|life| life.expires_at_ms > 0) else {
                continue;
            };
            if life.expired(now_ms) {
                self.delete(number, life, &mut changes);
            } else {
                next_ms = Some(next_ms.unwrap_or(u64::MAX).min(life.expires_at_ms));
            }
        }
        if self.has(Planted::SweepForgetsChunk) {
            next_ms = None;
        }
        self.expiry = next_ms.map(|at_ms| at_ms.max(now_ms + SWEEP_PAUSE_MS));
        self.settle(changes);
        true
    }

    pub(crate) fn lease_release(&mut self, pump: Pump) {
        if self.lock == Some(pump) {
            self.lock = None;
        }
    }
}

/// The life of a job under a lease; one that is not ready is taken for ready, as a script would that
/// does not look.
fn reserved(life: Life, ttr_ms: u64, now_ms: u64) -> Life {
    let ready = Life {
        state: State::Ready,
        tries_left: life.tries_left.max(1),
        expires_at_ms: 0,
        ..life
    };
    match ready.after(Event::Reserve { ttr_ms }, now_ms) {
        After::Lives(leased) => Life {
            expires_at_ms: life.expires_at_ms,
            ..leased
        },
        after => unreachable!("a ready job may be reserved: {after:?}"),
    }
}
