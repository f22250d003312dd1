//! The changes in a list of jobs since a page was loaded. The page notes a few bytes of each job that it shows, and its
//! stream gets them with its address: so no process keeps anything of it.

use std::collections::BTreeMap;

use base64::Engine;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use tidegate_core::JobState;
use tidegate_store::ListedJob;
use xxhash_rust::xxh3::xxh3_64;

/// Bytes of a hash. Two of the 50 jobs of a page have the same one once in 10,000 pages.
const HASH_BYTES: usize = 3;

type ShortHash = [u8; HASH_BYTES];

/// A job: its identity and its state.
type NotedJob = (ShortHash, ShortHash);

/// The difference between a list and a page that shows it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct ListChanges {
    /// Jobs that the page does not show. In a list that continues behind the page they are not counted: they have moved
    /// up.
    pub(super) new: usize,
    /// Jobs with another state, attempt or due time.
    pub(super) changed: usize,
    /// Jobs that are no longer in this part of the list.
    pub(super) gone: usize,
}

fn short_hash(bytes: &[u8]) -> ShortHash {
    let mut short = ShortHash::default();
    short.copy_from_slice(&xxh3_64(bytes).to_le_bytes()[..HASH_BYTES]);
    short
}

fn noted(listed: &ListedJob) -> NotedJob {
    let job = &listed.job;
    // A worker extends its lease again and again: a page that says so each time says nothing.
    let due_ms = match job.state {
        JobState::Leased => 0,
        _ => job.due_at_ms,
    };
    let how = format!("{} {} {due_ms}", job.state as u8, job.attempt);
    (
        short_hash(job.id.to_string().as_bytes()),
        short_hash(how.as_bytes()),
    )
}

/// The note of a page that shows these jobs.
pub(super) fn note_of(jobs: &[ListedJob]) -> String {
    let bytes = jobs.iter().map(noted);
    let bytes: Vec<u8> = bytes.flat_map(|(what, how)| [what, how].concat()).collect();
    BASE64_URL_SAFE_NO_PAD.encode(bytes)
}

/// The jobs of a note; the jobs of a damaged note may be any.
fn read_note(note: &str) -> BTreeMap<ShortHash, ShortHash> {
    let bytes = BASE64_URL_SAFE_NO_PAD.decode(note).unwrap_or_default();
    let (pairs, _) = bytes.as_chunks::<{ 2 * HASH_BYTES }>();
    let pair = |[a, b, c, d, e, f]: &[u8; 2 * HASH_BYTES]| ([*a, *b, *c], [*d, *e, *f]);
    pairs.iter().map(pair).collect()
}

impl ListChanges {
    /// The changes between the jobs of a note and these, the same part of a list that continues behind it or does not.
    pub(super) fn since(note: &str, jobs: &[ListedJob], continues: bool) -> Self {
        let mut before = read_note(note);
        let now: BTreeMap<ShortHash, ShortHash> = jobs.iter().map(noted).collect();
        let mut changes = Self::default();
        for (what, how) in now {
            match before.remove(&what) {
                None if continues => {}
                None => changes.new += 1,
                Some(other) if other != how => changes.changed += 1,
                Some(_) => {}
            }
        }
        changes.gone = before.len();
        changes
    }

    /// In words, such as `2 new, 1 no longer here`; `None` if nothing has changed.
    pub(super) fn text(self) -> Option<String> {
        let counts = [
            (self.new, "new"),
            (self.changed, "changed"),
            (self.gone, "no longer here"),
        ];
        let counts = counts.iter().filter(|(count, _)| *count > 0);
        let texts: Vec<String> = counts
            .map(|(count, what)| format!("{count} {what}"))
            .collect();
        (!texts.is_empty()).then(|| texts.join(", "))
    }
}

#[cfg(test)]
mod tests {
    use tidegate_core::{Attributes, Job, JobId};

    use super::*;

    fn listed(number: u64, state: JobState, due_at_ms: u64) -> ListedJob {
        ListedJob {
            job: Job {
                id: JobId::new(7, 3, number, 9),
                body: Default::default(),
                attributes: Attributes::default(),
                mark: false,
                extension: None,
                priority: 0,
                failures: None,
                cancel_requested: false,
                has_history: false,
                state,
                tries_left: 1,
                attempt: 0,
                created_at_ms: 0,
                due_at_ms,
                run_at_ms: 0,
                expires_at_ms: 0,
            },
            body_bytes: 0,
            is_damaged: false,
            last_failure: None,
            index: None,
        }
    }

    #[test]
    fn jobs_that_are_new_changed_and_gone_are_counted() {
        let jobs = |range: std::ops::Range<u64>, state| -> Vec<ListedJob> {
            range.map(|number| listed(number, state, 5)).collect()
        };
        let shown = jobs(0..50, JobState::Ready);
        let note = note_of(&shown);
        assert_eq!(note.len(), 400);
        assert_eq!(
            ListChanges::since(&note, &shown, false),
            ListChanges::default()
        );
        assert_eq!(ListChanges::since(&note, &shown, false).text(), None);
        let mut now = jobs(3..48, JobState::Ready);
        now.extend(jobs(48..50, JobState::Leased));
        now.extend(jobs(60..61, JobState::Ready));
        let changes = ListChanges::since(&note, &now, false);
        let expected = ListChanges {
            new: 1,
            changed: 2,
            gone: 3,
        };
        assert_eq!(changes, expected);
        assert_eq!(
            changes.text().unwrap(),
            "1 new, 2 changed, 3 no longer here"
        );
        let continued = ListChanges::since(&note, &now, true);
        assert_eq!(continued, ListChanges { new: 0, ..expected });
    }

    #[test]
    fn an_extended_lease_is_no_change_and_a_due_time_is_one() {
        for (state, changed) in [(JobState::Leased, 0), (JobState::Delayed, 1)] {
            let note = note_of(&[listed(1, state, 5)]);
            let changes = ListChanges::since(&note, &[listed(1, state, 6)], false);
            assert_eq!(changes.changed, changed, "{state:?}");
        }
    }

    #[test]
    fn a_note_may_be_anything() {
        for note in ["", "ä", "<script>", "AAAA", "AAAAAAAAA"] {
            let _ = ListChanges::since(note, &[listed(1, JobState::Ready, 5)], false);
        }
    }
}
