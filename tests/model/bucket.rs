//! A bucket in Redis: records, hints, counts. Also the functions that scripts share.

use std::collections::BTreeMap;

use tidegate_core::JobState;
use tidegate_core::lifecycle::LifecycleState;

use crate::planted::PlantedDefect;

/// A job: its index in the order of publishing.
pub(crate) type Number = usize;
/// A pump: its index. It is also the token of its lock.
pub(crate) type Pump = usize;

/// By level: width of a far slot, and how long before its begin it is loaded. They are small, so that a few ticks of
/// the clock pass several slots.
const FAR_LEVELS: [(u64, u64); 2] = [(2, 2), (4, 4)];
/// How far ahead the hint of a lease may be.
const LEASE_HINT_MS: u64 = 6;

/// Changes of counts and ready list that a script applies at its end.
#[derive(Debug, Default)]
pub(crate) struct Changes {
    counts: [i32; 5],
    arrivals: Vec<Number>,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct ModelBucket {
    pub(crate) planted: Option<PlantedDefect>,
    pub(crate) records: Vec<Option<LifecycleState>>,
    pub(crate) ready: Vec<Number>,
    pub(crate) dead: Vec<Number>,
    pub(crate) near: BTreeMap<Number, u64>,
    pub(crate) far: BTreeMap<ModelSlot, Vec<(Number, u64)>>,
    /// When the sweep reads the chunk next; all jobs of a model are in one chunk.
    pub(crate) expiry: Option<u64>,
    pub(crate) counts: [i32; 5],
    pub(crate) lock: Option<Pump>,
}

const fn index(state: JobState) -> usize {
    state as usize - 1
}

/// A far slot, ordered by when it is loaded.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct ModelSlot {
    loaded_at_ms: u64,
    level: usize,
}

impl ModelSlot {
    const fn of(level: usize, due_at_ms: u64) -> Self {
        let (width_ms, lead_ms) = FAR_LEVELS[level];
        let begin_ms = due_at_ms / width_ms * width_ms;
        Self {
            loaded_at_ms: begin_ms.saturating_sub(lead_ms),
            level,
        }
    }
}

impl Changes {
    pub(crate) fn count(&mut self, state: JobState, change: i32) {
        self.counts[index(state)] += change;
    }

    /// The caller writes the record.
    pub(crate) fn arrive(&mut self, number: Number) {
        self.count(JobState::Ready, 1);
        self.arrivals.push(number);
    }
}

impl ModelBucket {
    pub(crate) fn new(planted: Option<PlantedDefect>, counts: [i32; 5]) -> Self {
        Self {
            planted,
            records: Vec::new(),
            ready: Vec::new(),
            dead: Vec::new(),
            near: BTreeMap::new(),
            far: BTreeMap::new(),
            expiry: None,
            counts,
            lock: None,
        }
    }

    pub(crate) fn has(&self, planted: PlantedDefect) -> bool {
        self.planted == Some(planted)
    }

    pub(crate) fn record(&self, number: Number) -> Option<LifecycleState> {
        self.records.get(number).copied().flatten()
    }

    /// The job of a hint in the list of a state, if its record agrees.
    pub(crate) fn hinted(&self, number: Number, state: JobState) -> Option<LifecycleState> {
        self.record(number).filter(|life| life.state == state)
    }

    /// The live job with this id.
    pub(crate) fn find(&self, number: Number, now_ms: u64) -> Option<LifecycleState> {
        self.record(number).filter(|life| !life.expired(now_ms))
    }

    pub(crate) fn write(&mut self, number: Number, life: LifecycleState) {
        self.records[number] = Some(life);
    }

    pub(crate) fn delete(&mut self, number: Number, life: LifecycleState, changes: &mut Changes) {
        if !self.has(PlantedDefect::DeleteLeavesRecord) {
            self.records[number] = None;
        }
        if matches!(life.state, JobState::Delayed | JobState::Leased) {
            self.near.remove(&number);
        }
        if life.expires_at_ms > 0 && self.records.iter().all(Option::is_none) {
            self.expiry = None;
        }
        changes.count(life.state, -1);
    }

    /// The timer rule. The hint of a long lease is too early, and is set again when it comes up.
    pub(crate) fn hint(&mut self, number: Number, life: LifecycleState, now_ms: u64) {
        let due_at_ms = match life.state {
            JobState::Leased => life.due_at_ms.min(now_ms + LEASE_HINT_MS),
            _ => life.due_at_ms,
        };
        let slots = (0..FAR_LEVELS.len()).map(|level| ModelSlot::of(level, due_at_ms));
        match slots.take_while(|slot| slot.loaded_at_ms > now_ms).last() {
            None => drop(self.near.insert(number, due_at_ms)),
            Some(slot) => {
                let hints = self.far.entry(slot).or_default();
                hints.push((number, due_at_ms));
            }
        }
    }

    /// The first slot that is to be loaded now.
    pub(crate) fn slot_to_load(&self, now_ms: u64) -> Option<ModelSlot> {
        let (slot, _) = self.far.first_key_value()?;
        (slot.loaded_at_ms <= now_ms).then_some(*slot)
    }

    pub(crate) fn expire_later(&mut self, life: LifecycleState) {
        if life.expires_at_ms > 0 {
            let earliest = self.expiry.unwrap_or(u64::MAX).min(life.expires_at_ms);
            self.expiry = Some(earliest);
        }
    }

    pub(crate) fn settle(&mut self, changes: Changes) {
        for state in JobState::ALL {
            let change = changes.counts[index(state)];
            self.counts[index(state)] += change;
            if change < 0 && self.counts[index(state)] <= 0 {
                self.drop_stale(state);
            }
        }
        self.ready.extend(changes.arrivals);
    }

    /// Drops the stale hints at the head of a list.
    fn drop_stale(&mut self, state: JobState) {
        let list = match state {
            JobState::Ready => &self.ready,
            JobState::Dead => &self.dead,
            JobState::Delayed | JobState::Leased | JobState::Done => return,
        };
        let is_stale = |number: &&Number| self.hinted(**number, state).is_none();
        let stale = match self.has(PlantedDefect::CountDeletesList) {
            true => list.len(),
            false => list.iter().take_while(is_stale).count(),
        };
        match state {
            JobState::Ready => drop(self.ready.drain(..stale)),
            _ => drop(self.dead.drain(..stale)),
        }
    }

    /// The number of records in each state.
    pub(crate) fn counted(&self) -> [i32; 5] {
        JobState::ALL.map(|state| {
            let records = self.records.iter().flatten();
            records.filter(|life| life.state == state).count() as i32
        })
    }

    /// Whether a hint leads to the job in time: its list names it once, or one of its timers is not late.
    pub(crate) fn is_found(&self, number: Number, life: LifecycleState) -> bool {
        let named = |list: &[Number]| list.iter().filter(|named| **named == number).count();
        match life.state {
            JobState::Ready => named(&self.ready) == 1,
            JobState::Dead => named(&self.dead) == 1,
            JobState::Done => true,
            JobState::Delayed | JobState::Leased => {
                let far = self.far.values().flatten();
                let far = far.filter(|(named, _)| *named == number);
                let mut timers = far.map(|(_, at_ms)| at_ms).chain(self.near.get(&number));
                timers.any(|at_ms| *at_ms <= life.due_at_ms)
            }
        }
    }
}
