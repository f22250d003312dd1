//! Checks in Redis that no job was lost, orphaned or counted wrongly.
//!
//! For every bucket, in one atomic snapshot:
//! * the counts of each queue equal the number of its records by state;
//! * every ready and every dead record is exactly once in its queue's list;
//! * the number of leased jobs of each group equals its leased records;
//! * every delayed and every leased record has a timer in its queue that is not later than its due time, or is in a far
//!   slot that is loaded before;
//! * every queue with near timers is in `due` with a time no later than the first of them; every far slot is in `slots`
//!   with a time before it begins;
//! * every body stored outside of its record has a record, and vice versa;
//! * every uploaded payload that has not become a body expires within a minute;
//! * every record with an expiry is in the index of the sweep with a time no later than it expires, or within the
//!   shortest pause of the sweep;
//! * every record belongs to an existing queue.
//!
//! Hints without a record are not defects: they are dropped when a script reads them.

mod snapshot;

use std::collections::{BTreeSet, HashMap};
use std::fmt::Write;

use tidegate_core::codec::RecordFlags;
use tidegate_core::{GroupHash, JobState, JobsByState};

use snapshot::{BucketSnapshot, RecordSnapshot};

/// Shortest pause of the sweep between two visits of the same chunk.
const SWEEP_PAUSE_MS: u64 = 1000;
/// Longest time to live of an uploaded payload.
const UPLOAD_MS_MAX: i64 = 60_000;

/// Checks every bucket of the Redis at `url`. One script reads each bucket, so daemons may be running.
///
/// # Panics
/// If something is inconsistent; the message lists it.
pub async fn check(url: &str) {
    let defects = defects(url).await;
    assert!(
        defects.is_empty(),
        "the data in Redis are inconsistent:\n{}",
        join_first(&defects)
    );
}

/// Returns the defects that [`check`] would report, one line each.
///
/// # Panics
/// If Redis cannot be read.
pub async fn defects(url: &str) -> Vec<String> {
    let mut defects = Vec::new();
    for bucket in snapshot::read(url).await {
        bucket.find_defects(&mut defects);
    }
    defects
}

/// Counts the jobs of all queues by their records, without retained ones.
///
/// # Panics
/// If Redis cannot be read.
pub async fn totals(url: &str) -> JobsByState {
    let mut totals = JobsByState::default();
    for bucket in snapshot::read(url).await {
        for record in bucket.records.values() {
            let count = match record.header.state {
                JobState::Delayed => &mut totals.delayed,
                JobState::Ready => &mut totals.ready,
                JobState::Leased => &mut totals.leased,
                JobState::Dead => &mut totals.dead,
                JobState::Done => continue,
            };
            *count += 1;
        }
    }
    totals
}

fn join_first(defects: &[String]) -> String {
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

impl BucketSnapshot {
    fn find_defects(&self, defects: &mut Vec<String>) {
        let mut found = DefectList {
            bucket: self.number,
            defects,
        };
        self.check_counts(&mut found);
        self.check_numbers_of_queues(&mut found);
        self.check_lines(&mut found);
        self.check_running(&mut found);
        let ready = count_entries(&self.hints_in_their_lines());
        let dead = count_entries(&self.dead);
        let timers = self.earliest_timers();
        self.check_indexes(&mut found);
        for record in self.records.values() {
            self.check_reachable(record, &ready, &dead, &timers, &mut found);
            self.check_body(record, &mut found);
            self.check_other_keys(record, &mut found);
            self.check_expiry(record, &mut found);
        }
        for number in &self.bodies {
            if !self
                .records
                .get(number)
                .is_some_and(RecordSnapshot::has_outside_body)
            {
                found.add_job(*number, "has a body without a record");
            }
        }
        let others = self.next.iter().chain(&self.next_bodies).chain(&self.logs);
        for number in others.chain(&self.keyed) {
            if !self.records.contains_key(number) {
                found.add_job(
                    *number,
                    "has other keys, or an entry in the index of keys, without a record",
                );
            }
        }
        for (name, left_ms) in &self.uploads {
            if !(0..=UPLOAD_MS_MAX).contains(left_ms) {
                found.add(format!(
                    "upload {name} does not expire in time: its time to live is {left_ms} ms"
                ));
            }
        }
    }

    /// The entries of ready lists whose jobs belong to the list.
    fn hints_in_their_lines(&self) -> Vec<(u32, u64)> {
        let line_of = |number| Some(self.records.get(number)?.line);
        let hints = self.ready.iter();
        let hints = hints.filter(|(_, line, number)| line_of(number) == Some(*line));
        hints.map(|(queue, _, number)| (*queue, *number)).collect()
    }

    /// The number of leased jobs of each group is stored.
    fn check_running(&self, found: &mut DefectList<'_>) {
        let mut running: HashMap<u32, HashMap<GroupHash, i64>> = HashMap::new();
        let leased = self.records.values();
        let leased = leased.filter(|record| record.header.state == JobState::Leased);
        for (queue, group) in leased.filter_map(|it| Some((it.header.queue, it.group?))) {
            *running.entry(queue).or_default().entry(group).or_default() += 1;
        }
        if running != self.running {
            let counted = &self.running;
            found.add(format!(
                "groups have {running:?} leased jobs, and count {counted:?}"
            ));
        }
    }

    /// Each line but the first has a turn, each turn a line, and the number of its queue the mark.
    fn check_lines(&self, found: &mut DefectList<'_>) {
        let lines = self.ready.iter().filter_map(|(_, line, _)| *line);
        let lines: BTreeSet<(u32, String)> = lines
            .map(|line| {
                let text = line.to_string();
                let name = text.trim_start_matches(|letter: char| letter.is_ascii_digit());
                (line.queue, name.to_owned())
            })
            .collect();
        let turns = self.turns.iter().filter(|(_, line)| !line.is_empty());
        let turns: BTreeSet<(u32, String)> = turns.cloned().collect();
        if lines != turns {
            found.add(format!(
                "there are the lines {lines:?}, and turns of {turns:?}"
            ));
        }
        for (queue, line) in lines {
            if !self
                .names
                .values()
                .any(|value| *value == format!("+{queue}"))
            {
                found.add(format!("queue {queue} has the line {line} and no mark"));
            }
        }
    }

    fn check_counts(&self, found: &mut DefectList<'_>) {
        let mut by_state: HashMap<(u32, JobState), i64> = HashMap::new();
        for record in self.records.values() {
            let header = &record.header;
            *by_state.entry((header.queue, header.state)).or_default() += 1;
            if !self.queues.contains_key(&header.queue) {
                found.add_job(record.number, "belongs to a queue that does not exist");
            }
        }
        for (queue, counts) in &self.queues {
            for state in JobState::ALL {
                let counted = counts.get(state.as_str()).copied().unwrap_or(0);
                let real = by_state.get(&(*queue, state)).copied().unwrap_or(0);
                if counted != real {
                    found.add(format!(
                        "queue {queue} counts {counted} {} jobs, there are {real}",
                        state.as_str()
                    ));
                }
            }
        }
    }

    /// Compares the numbers of queues of namespaces, which limits are compared with, with their names.
    fn check_numbers_of_queues(&self, found: &mut DefectList<'_>) {
        let mut named: HashMap<&str, i64> = HashMap::new();
        let mut counted: HashMap<&str, i64> = HashMap::new();
        for (field, value) in &self.names {
            match field.split_once('/') {
                None => {}
                // The floor of a lane, for keys.
                Some(_) if field.starts_with('@') => {}
                Some((namespace, "")) => {
                    counted.insert(namespace, value.parse().unwrap_or(-1));
                }
                // A lane that was closed before it had a job has no number.
                Some((namespace, _)) if !value.ends_with(" 0") => {
                    *named.entry(namespace).or_default() += 1;
                }
                Some(_) => {}
            }
        }
        if named != counted {
            found.add(format!(
                "namespaces have {named:?} queues, and count {counted:?}"
            ));
        }
    }

    fn check_reachable(
        &self,
        record: &RecordSnapshot,
        ready: &HashMap<(u32, u64), u64>,
        dead: &HashMap<(u32, u64), u64>,
        timers: &HashMap<(u32, u64), u64>,
        found: &mut DefectList<'_>,
    ) {
        let header = &record.header;
        let named = |list: &HashMap<(u32, u64), u64>| {
            let key = (header.queue, record.number);
            list.get(&key).copied().unwrap_or(0)
        };
        let word = header.state.as_str();
        match header.state {
            JobState::Ready | JobState::Dead => {
                let list = if header.state == JobState::Ready {
                    ready
                } else {
                    dead
                };
                let times = named(list);
                // A job of the native API may have become ready again while an earlier hint of it was stale.
                let may_repeat = header.flags.has(RecordFlags::COUNTS_FAILURES) && times > 1;
                if times != 1 && !may_repeat {
                    found.add_job(
                        record.number,
                        &format!("is {word} and in its list {times} times"),
                    );
                }
            }
            JobState::Done => {}
            JobState::Delayed | JobState::Leased => {
                match timers.get(&(header.queue, record.number)) {
                    _ if self.is_in_far_slot(record) => {}
                    None => found.add_job(record.number, &format!("is {word} and has no timer")),
                    Some(at_ms) if *at_ms > header.due_at_ms => {
                        let late = at_ms - header.due_at_ms;
                        found.add_job(
                            record.number,
                            &format!("is {word} and its timer is {late} ms late"),
                        );
                    }
                    Some(_) => {}
                }
            }
        }
    }

    fn check_other_keys(&self, record: &RecordSnapshot, found: &mut DefectList<'_>) {
        let number = record.number;
        for (flag, jobs, what) in [
            (RecordFlags::NEXT_WAITS, &self.next, "a waiting version"),
            (RecordFlags::LOGGED, &self.logs, "a history"),
        ] {
            let (is_flagged, exists) = (record.header.flags.has(flag), jobs.contains(&number));
            if is_flagged != exists {
                found.add_job(
                    number,
                    &format!("is flagged for {what}: {is_flagged}, has one: {exists}"),
                );
            }
        }
    }

    fn check_body(&self, record: &RecordSnapshot, found: &mut DefectList<'_>) {
        if record.has_outside_body() && !self.bodies.contains(&record.number) {
            found.add_job(record.number, "has no body");
        }
    }

    fn check_expiry(&self, record: &RecordSnapshot, found: &mut DefectList<'_>) {
        let expires_at_ms = record.header.expires_at_ms;
        if expires_at_ms == 0 {
            return;
        }
        let latest = expires_at_ms.max(self.now_ms + SWEEP_PAUSE_MS);
        match self.expiry.get(&record.chunk()) {
            None => found.add_job(
                record.number,
                "expires and is not in the index of the sweep",
            ),
            Some(at_ms) if *at_ms > latest => {
                found.add_job(record.number, "expires before the sweep visits it");
            }
            Some(_) => {}
        }
    }

    fn check_indexes(&self, found: &mut DefectList<'_>) {
        for (queue, timers) in &self.near {
            let first_ms = timers.iter().map(|(_, at_ms)| *at_ms).min();
            let is_late = |first_ms: u64| {
                let score = self.due.get(queue);
                score.is_none_or(|score| u64::try_from(*score).is_ok_and(|at_ms| at_ms > first_ms))
            };
            if first_ms.is_some_and(is_late) {
                found.add(format!(
                    "queue {queue} has near timers and is not due in time"
                ));
            }
        }
        for slot in self.far.keys() {
            let begins_ms = self.slot_width.begin_ms(*slot);
            if self.slots.get(slot).is_none_or(|at_ms| *at_ms > begins_ms) {
                found.add(format!("slot {slot} is not loaded in time"));
            }
        }
    }

    /// Whether the record is in a far slot that is loaded before its due time.
    fn is_in_far_slot(&self, record: &RecordSnapshot) -> bool {
        let [last, ..] = self.slot_width.slots_of(record.header.due_at_ms);
        let mut slots = self.far.iter().filter(|(slot, _)| **slot <= last);
        slots.any(|(_, numbers)| numbers.contains(&record.number))
    }

    /// Returns the earliest near timer of each job, by queue and job number.
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

/// Counts the entries of each job, by queue and job number.
fn count_entries(entries: &[(u32, u64)]) -> HashMap<(u32, u64), u64> {
    let mut times = HashMap::new();
    for entry in entries {
        *times.entry(*entry).or_default() += 1;
    }
    times
}

struct DefectList<'a> {
    bucket: u16,
    defects: &'a mut Vec<String>,
}

impl DefectList<'_> {
    fn add_job(&mut self, number: u64, what: &str) {
        self.add(format!("job {number} {what}"));
    }

    fn add(&mut self, what: String) {
        self.defects.push(format!("bucket {}: {what}", self.bucket));
    }
}
