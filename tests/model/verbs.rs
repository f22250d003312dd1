//! The scripts, each as one step. [`LifecycleState::apply`] decides the state of a job after a step. Modelled here is
//! how scripts find a job, and how they change its hints.

use tidegate_core::JobState;
use tidegate_core::lifecycle::{LifecycleEvent, LifecycleState, Transition};

use crate::bucket::{Changes, ModelBucket, Number, Pump};
use crate::planted::PlantedDefect;

/// Least time between two reads of a chunk by the sweep.
pub(crate) const SWEEP_PAUSE_MS: u64 = 1;

/// The parameters of a publish.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct ModelPublish {
    pub(crate) delay_ms: u64,
    pub(crate) ttl_ms: u64,
    pub(crate) tries: u16,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum VerbOutcome {
    Done,
    Refused,
    Gone,
}

impl ModelBucket {
    pub(crate) fn publish(&mut self, publish: ModelPublish, now_ms: u64) -> Number {
        let mut changes = Changes::default();
        let number = self.records.len();
        let life =
            LifecycleState::published(now_ms, publish.delay_ms, publish.ttl_ms, publish.tries);
        self.records.push(Some(life));
        if life.state == JobState::Ready {
            changes.arrive(number);
        } else {
            changes.count(life.state, 1);
            if !self.has(PlantedDefect::PublishSetsNoTimer) {
                self.hint(number, life, now_ms);
            }
        }
        self.expire_later(life);
        self.settle(changes);
        number
    }

    /// Returns the leased job and its attempt.
    pub(crate) fn reserve(&mut self, ttr_ms: u64, now_ms: u64) -> Option<(Number, u32)> {
        let mut changes = Changes::default();
        let leased = self.next_live(now_ms, &mut changes).map(|(number, life)| {
            changes.count(life.state, -1);
            let life = reserved(life, ttr_ms, now_ms);
            changes.count(life.state, 1);
            self.write(number, life);
            self.hint(number, life, now_ms);
            (number, life.attempt)
        });
        self.settle(changes);
        leased
    }

    fn next_live(
        &mut self,
        now_ms: u64,
        changes: &mut Changes,
    ) -> Option<(Number, LifecycleState)> {
        while !self.ready.is_empty() {
            let number = self.ready.remove(0);
            let mut found = self.hinted(number, JobState::Ready);
            if self.has(PlantedDefect::ReserveTrustsHint) {
                found = found.or(Some(LifecycleState::published(now_ms, 0, 0, 1)));
            }
            match found {
                Some(life)
                    if life.expired(now_ms) && !self.has(PlantedDefect::ReserveIgnoresExpiry) =>
                {
                    self.delete(number, life, changes);
                }
                Some(life) => return Some((number, life)),
                None => {}
            }
        }
        None
    }

    pub(crate) fn ack(&mut self, number: Number, attempt: Option<u32>, now_ms: u64) -> VerbOutcome {
        let attempt = match self.has(PlantedDefect::AckIgnoresAttempt) {
            true => self
                .record(number)
                .map(|life| life.attempt)
                .filter(|_| attempt.is_some()),
            false => attempt,
        };
        self.delete_if(number, LifecycleEvent::Ack { attempt }, now_ms)
    }

    pub(crate) fn cancel(&mut self, number: Number, now_ms: u64) -> VerbOutcome {
        self.delete_if(number, LifecycleEvent::Cancel, now_ms)
    }

    fn delete_if(&mut self, number: Number, event: LifecycleEvent, now_ms: u64) -> VerbOutcome {
        let Some(life) = self.find(number, now_ms) else {
            return VerbOutcome::Gone;
        };
        if life.apply(event, now_ms) != Transition::Gone {
            return VerbOutcome::Refused;
        }
        let mut changes = Changes::default();
        self.delete(number, life, &mut changes);
        self.settle(changes);
        VerbOutcome::Done
    }

    pub(crate) fn release(&mut self, number: Number, attempt: u32, now_ms: u64) -> VerbOutcome {
        let Some(life) = self.find(number, now_ms) else {
            return VerbOutcome::Gone;
        };
        let Transition::Lives(mut ready) = life.apply(LifecycleEvent::Release { attempt }, now_ms)
        else {
            return VerbOutcome::Refused;
        };
        if self.has(PlantedDefect::ReleaseReusesAttempt) {
            ready.attempt -= 1;
        }
        let mut changes = Changes::default();
        self.near.remove(&number);
        changes.count(life.state, -1);
        changes.count(ready.state, 1);
        self.write(number, ready);
        self.settle(changes);
        self.ready.insert(0, number);
        VerbOutcome::Done
    }

    /// Makes the oldest dead job ready, with one try.
    pub(crate) fn respawn(&mut self, ttl_ms: u64, now_ms: u64) -> Option<Number> {
        let mut changes = Changes::default();
        let number = (!self.dead.is_empty()).then(|| self.dead.remove(0))?;
        let respawned = self.hinted(number, JobState::Dead).and_then(|life| {
            let Transition::Lives(ready) = life.apply(LifecycleEvent::Respawn { ttl_ms }, now_ms)
            else {
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

    /// Loads one hint. Returns whether there was one to load.
    pub(crate) fn load_slot(&mut self, pump: Pump, now_ms: u64) -> bool {
        if self.lock != Some(pump) {
            return false;
        }
        let Some(slot) = self.slot_to_load(now_ms) else {
            return false;
        };
        // One hint per call: other steps can happen while a slot is loaded in part.
        let Some(hints) = self.far.get_mut(&slot) else {
            return false;
        };
        let (number, at_ms) = hints.remove(0);
        if hints.is_empty() {
            self.far.remove(&slot);
        }
        let trusts = self.has(PlantedDefect::HintsAreTrusted);
        if trusts || self.has(PlantedDefect::LoadSetsBackTimers) {
            self.near.insert(number, at_ms);
        } else if let Some(life) = self.record(number)
            && matches!(life.state, JobState::Delayed | JobState::Leased)
        {
            self.hint(number, life, now_ms);
        }
        true
    }

    /// Takes one due hint. Returns whether there was one.
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
        let waits =
            |life: &LifecycleState| matches!(life.state, JobState::Delayed | JobState::Leased);
        let job = self
            .record(number)
            .filter(|life| waits(life) || self.has(PlantedDefect::HintsAreTrusted));
        self.near.remove(&number);
        if let Some(life) = job {
            self.move_job(number, life, now_ms, &mut changes);
        }
        self.settle(changes);
        true
    }

    fn move_job(
        &mut self,
        number: Number,
        life: LifecycleState,
        now_ms: u64,
        changes: &mut Changes,
    ) {
        let lifecycle = match self.has(PlantedDefect::HintsAreTrusted) {
            true => LifecycleState {
                state: JobState::Delayed,
                due_at_ms: now_ms,
                ..life
            },
            false => life,
        };
        match lifecycle.apply(LifecycleEvent::MoveDue, now_ms) {
            Transition::Gone => self.delete(number, life, changes),
            Transition::Lives(moved) if moved.state == life.state => {
                self.hint(number, life, now_ms);
            }
            Transition::Lives(moved) => {
                changes.count(life.state, -1);
                if moved.state == JobState::Ready {
                    changes.arrive(number);
                } else {
                    changes.count(JobState::Dead, 1);
                    self.dead.push(number);
                }
                self.write(number, moved);
            }
            Transition::Refused => {}
        }
    }

    /// Deletes expired jobs. Returns whether the chunk was read.
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
        if self.has(PlantedDefect::SweepForgetsChunk) {
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

/// The job under a lease. Its state is not checked, to model a script that does not check the record.
fn reserved(life: LifecycleState, ttr_ms: u64, now_ms: u64) -> LifecycleState {
    let ready = LifecycleState {
        state: JobState::Ready,
        tries_left: life.tries_left.max(1),
        expires_at_ms: 0,
        ..life
    };
    match ready.apply(LifecycleEvent::Reserve { ttr_ms }, now_ms) {
        Transition::Lives(leased) => LifecycleState {
            expires_at_ms: life.expires_at_ms,
            ..leased
        },
        after => unreachable!("a ready job can be reserved: {after:?}"),
    }
}
