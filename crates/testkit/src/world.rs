//! The check that nothing was lost, orphaned or counted wrongly.
//!
//! For every bucket, in one snapshot:
//! * the counts of each queue equal its records by state;
//! * every ready and every dead record is named exactly once by its queue's list;
//! * every delayed and every leased record is named by a timer of its queue that is not later than its
//!   due time, or by a far slot that is loaded before;
//! * every queue with near timers is known to `move_due` no later than it has the first of them; every far slot is known
//!   to `load_slot`, ahead of its time;
//! * every body stored outside of its record has its record, and the other way round;
//! * a payload that was uploaded and has become no body goes away by itself, soon;
//! * every record that expires is known to the sweep no later than it expires, or the sweep is about
//!   to look at its chunk anyway;
//! * no record belongs to a queue that does not exist.
//!
//! Hints without a record are no defect: they are dropped when they are touched.

mod snapshot;

use std::collections::HashMap;
use std::fmt::Write;
use std::ops::AddAssign;

use tidegate_core::State;

use snapshot::{Bucket, Record};

/// The sweep looks at a chunk whose jobs expire one by one no more often than this.
const SWEEP_PAUSE_MS: u64 = 1000;
/// Nothing is on its way into Redis for longer.
const UPLOAD_MS_MAX: i64 = 60_000;

/// Checks every bucket of the Redis at `url`. Each bucket is read by one script, so it may be called
/// while daemons are at work.
///
/// # Panics
/// When something is amiss; the message lists it.
pub async fn check(url: &str) {
    let defects = defects(url).await;
    assert!(
        defects.is_empty(),
        "the world is not as it should be:\n{}",
        listed(&defects)
    );
}

/// What [`check`] would complain about, one line each.
///
/// # Panics
/// When Redis cannot be read.
pub async fn defects(url: &str) -> Vec<String> {
    let mut defects = Vec::new();
    for bucket in snapshot::read(url).await {
        bucket.find_defects(&mut defects);
    }
    defects
}

/// How many jobs there are, by state, over all queues.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Totals {
    /// Jobs that wait for their time.
    pub delayed: u64,
    /// Jobs that could be consumed.
    pub ready: u64,
    /// Jobs in the hands of consumers.
    pub leased: u64,
    /// Jobs whose tries are used up.
    pub dead: u64,
}

impl AddAssign for Totals {
    fn add_assign(&mut self, other: Self) {
        self.delayed += other.delayed;
        self.ready += other.ready;
        self.leased += other.leased;
        self.dead += other.dead;
    }
}

/// Counts the records themselves.
///
/// # Panics
/// When Redis cannot be read.
pub async fn totals(url: &str) -> Totals {
    let mut totals = Totals::default();
    for bucket in snapshot::read(url).await {
        for record in bucket.records.values() {
            let count = match record.header.state {
                State::Delayed => &mut totals.delayed,
                State::Ready => &mut totals.ready,
                State::Leased => &mut totals.leased,
                State::Dead => &mut totals.dead,
            };
            *count += 1;
        }
    }
    totals
}

fn listed(defects: &[String]) -> String {
    const SHOWN: usize = 30;
    let mut text = String::new();
    for defect in defects.iter().take(SHOWN) {
        let _ = writeln!(text, "  - {defect}");
    }
    if defects.len() > SHOWN {
        let _ = writeln!(text, "  … and {} more", defects.len() - SHOWN);
    }
    text
}

impl Bucket {
    fn find_defects(&self, defects: &mut Vec<String>) {
        let mut found = Found {
            bucket: self.number,
            defects,
        };
        self.check_counts(&mut found);
        let ready = times_named(&self.ready);
        let dead = times_named(&self.dead);
        let timers = self.earliest_timers();
        self.check_indexes(&mut found);
        for record in self.records.values() {
            self.check_reachable(record, &ready, &dead, &timers, &mut found);
            self.check_body(record, &mut found);
            self.check_expiry(record, &mut found);
        }
        for number in &self.bodies {
            if !self.records.get(number).is_some_and(Record::body_outside) {
                found.defect(*number, "has a body without a record");
            }
        }
        for (name, left_ms) in &self.uploads {
            if !(0..=UPLOAD_MS_MAX).contains(left_ms) {
                found.line(format!(
                    "upload {name} stays: its time to live is {left_ms} ms"
                ));
            }
        }
    }

    fn check_counts(&self, found: &mut Found<'_>) {
        let mut by_state: HashMap<(u32, State), i64> = HashMap::new();
        for record in self.records.values() {
            let header = &record.header;
            *by_state.entry((header.queue, header.state)).or_default() += 1;
            if !self.queues.contains_key(&header.queue) {
                found.defect(record.number, "belongs to a queue that does not exist");
            }
        }
        for (queue, counts) in &self.queues {
            for state in State::ALL {
                let told = counts.get(state.word()).copied().unwrap_or(0);
                let real = by_state.get(&(*queue, state)).copied().unwrap_or(0);
                if told != real {
                    found.line(format!(
                        "queue {queue} counts {told} {} jobs, there are {real}",
                        state.word()
                    ));
                }
            }
        }
    }

    fn check_reachable(
        &self,
        record: &Record,
        ready: &HashMap<(u32, u64), u64>,
        dead: &HashMap<(u32, u64), u64>,
        timers: &HashMap<(u32, u64), u64>,
        found: &mut Found<'_>,
    ) {
        let header = &record.header;
        let named = |list: &HashMap<(u32, u64), u64>| {
            let key = (header.queue, record.number);
            list.get(&key).copied().unwrap_or(0)
        };
        let word = header.state.word();
        match header.state {
            State::Ready | State::Dead => {
                let list = if header.state == State::Ready {
                    ready
                } else {
                    dead
                };
                let times = named(list);
                if times != 1 {
                    found.defect(
                        record.number,
                        &format!("is {word} and in its list {times} times"),
                    );
                }
            }
            State::Delayed | State::Leased => match timers.get(&(header.queue, record.number)) {
                _ if self.is_in_far_slot(record) => {}
                None => found.defect(record.number, &format!("is {word} and has no timer")),
                Some(at_ms) if *at_ms > header.due_at_ms => {
                    let late = at_ms - header.due_at_ms;
                    found.defect(
                        record.number,
                        &format!("is {word} and its timer is {late} ms late"),
                    );
                }
                Some(_) => {}
            },
        }
    }

    fn check_body(&self, record: &Record, found: &mut Found<'_>) {
        if record.body_outside() && !self.bodies.contains(&record.number) {
            found.defect(record.number, "has no body");
        }
    }

    fn check_expiry(&self, record: &Record, found: &mut Found<'_>) {
        let expires_at_ms = record.header.expires_at_ms;
        if expires_at_ms == 0 {
            return;
        }
        let latest = expires_at_ms.max(self.now_ms + SWEEP_PAUSE_MS);
        match self.expiry.get(&record.chunk()) {
            None => found.defect(record.number, "expires and the sweep does not know it"),
            Some(at_ms) if *at_ms > latest => {
                found.defect(record.number, "expires before the sweep looks");
            }
            Some(_) => {}
        }
    }

    fn check_indexes(&self, found: &mut Found<'_>) {
        for (queue, timers) in &self.near {
            let first_ms = timers.iter().map(|(_, at_ms)| *at_ms).min();
            let is_late = |first_ms: u64| {
                let score = self.due.get(queue);
                score.is_none_or(|score| u64::try_from(*score).is_ok_and(|at_ms| at_ms > first_ms))
            };
            if first_ms.is_some_and(is_late) {
                found.line(format!(
                    "queue {queue} has near timers and nobody looks in time"
                ));
            }
        }
        for slot in self.far.keys() {
            let begins_ms = slot * self.slot_ms;
            if self.slots.get(slot).is_none_or(|at_ms| *at_ms > begins_ms) {
                found.line(format!("slot {slot} is not loaded in time"));
            }
        }
    }

    /// Whether a far slot names the record that is loaded before its due time.
    fn is_in_far_slot(&self, record: &Record) -> bool {
        let last = record.header.due_at_ms / self.slot_ms;
        let mut slots = self.far.iter().filter(|(slot, _)| **slot <= last);
        slots.any(|(_, numbers)| numbers.contains(&record.number))
    }

    /// The earliest near timer of each job, by queue and job number.
    fn earliest_timers(&self) -> HashMap<(u32, u64), u64> {
        let timers = self.near.iter();
        timers
            .flat_map(|(queue, timers)| {
                let timers = timers.iter();
                timers.map(|(number, at_ms)| ((*queue, *number), *at_ms))
            })
            .collect()
    }
}

/// How often each job is named, by queue and job number.
fn times_named(entries: &[(u32, u64)]) -> HashMap<(u32, u64), u64> {
    let mut times = HashMap::new();
    for entry in entries {
        *times.entry(*entry).or_default() += 1;
    }
    times
}

struct Found<'a> {
    bucket: u16,
    defects: &'a mut Vec<String>,
}

impl Found<'_> {
    fn defect(&mut self, number: u64, what: &str) {
        self.line(format!("job {number} {what}"));
    }

    fn line(&mut self, what: String) {
        self.defects.push(format!("bucket {}: {what}", self.bucket));
    }
}
