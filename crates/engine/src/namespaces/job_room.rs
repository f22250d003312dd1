//! The limit `jobs` of a namespace: room for the jobs of a publish, taken before they are stored.
//!
//! ```text
//!  jobs of a namespace  ≤  counted in Redis  +  taken by publishes of this process that were not complete
//!                          when the count began
//! ```
//!
//! No script counts for it. A count reads the sizes of all queues, in the short calls with which pumps read them, for
//! all namespaces together. While namespaces with the limit publish it is renewed once a second, and as soon as half of
//! the room of one is used; and before a publish is refused, so that room which became free is found. What other
//! processes publish between two counts is not known here.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tidegate_core::{JobsByState, Namespace};
use tokio::time::Instant;

/// A count that is older is renewed by the next publish.
const RENEWED_AFTER: Duration = Duration::from_secs(1);
/// The same in lengths of the count, so that counts take a fiftieth of the time of Redis at most.
const RENEWED_AFTER_LENGTHS: u32 = 50;
/// A count is not used any more after this many times the age at which it was to be renewed.
const UNUSED_AFTER: u32 = 3;

/// The jobs of namespaces in the deployment of a pool, and in its target if it moves.
#[derive(Debug, Default)]
pub(crate) struct JobRooms {
    pub(super) known: Mutex<KnownJobs>,
    /// Held during a count: the jobs of each bucket when it was read last.
    pub(super) counting: tokio::sync::Mutex<JobsByBucket>,
}

/// The jobs of namespaces by deployment (0 = the deployment of the pool, 1 = its target) and bucket.
pub(super) type JobsByBucket = HashMap<(usize, u16), HashMap<Namespace, u64>>;

#[derive(Debug, Default)]
pub(super) struct KnownJobs {
    pub(super) count: Option<JobCount>,
    /// Whether a count is to be renewed in the background.
    pub(super) is_renewing: bool,
    /// Namespaces of which this process has published since the count, or is publishing.
    published: HashMap<Namespace, PublishedJobs>,
}

/// All jobs that were found in Redis. Of a bucket that could not be read: those that were found last.
#[derive(Debug)]
pub(super) struct JobCount {
    pub(super) began_at: Instant,
    /// How long it took.
    pub(super) length: Duration,
    /// Whether all buckets were read.
    pub(super) is_complete: bool,
    pub(super) jobs: HashMap<Namespace, u64>,
}

/// The jobs of a namespace that this process has published.
#[derive(Debug, Default)]
struct PublishedJobs {
    /// Of all publishes that have begun, without those that were not stored.
    taken: u64,
    /// Of all publishes that are complete.
    complete: u64,
    /// `complete` when the last count began.
    complete_before_next: u64,
    /// `complete` when the last count of all buckets began: these are in the count.
    complete_before: u64,
    /// Of all publishes without an answer: they may be stored, and may be found by the next count of all buckets.
    uncertain: u64,
    /// `uncertain` when the last count began.
    uncertain_before_next: u64,
}

impl PublishedJobs {
    /// Jobs that may not be in the last count.
    const fn since(&self) -> u64 {
        self.taken - self.complete_before
    }
}

impl JobCount {
    /// When `time`, and so many times the length of this count, have passed since it began.
    pub(super) fn after(&self, time: Duration, lengths: u32) -> Instant {
        self.began_at + time.max(self.length.saturating_mul(lengths))
    }

    fn is_to_be_renewed(&self) -> bool {
        Instant::now() >= self.after(RENEWED_AFTER, RENEWED_AFTER_LENGTHS)
    }

    /// Whether it says nothing any more: this process has published nothing for a while.
    pub(super) fn is_useless(&self) -> bool {
        let lengths = UNUSED_AFTER * RENEWED_AFTER_LENGTHS;
        Instant::now() >= self.after(UNUSED_AFTER * RENEWED_AFTER, lengths)
    }
}

impl KnownJobs {
    /// Whether to count again: the count is old, or this process has used half of the room that it found.
    pub(super) fn is_to_be_renewed(&self, namespace: &Namespace, max: u64) -> bool {
        let Some(count) = self.count.as_ref().filter(|_| !self.is_renewing) else {
            return false;
        };
        let counted = count.jobs.get(namespace).copied().unwrap_or_default();
        let since = self.published.get(namespace).map(PublishedJobs::since);
        let is_half_used = since.unwrap_or_default() * 2 > max.saturating_sub(counted);
        is_half_used || count.is_to_be_renewed()
    }

    /// Takes room for up to `wanted` jobs of a namespace that may have `max`. Returns how many have room; `None` if these
    /// are less than `least`. Before the first count no job is known.
    pub(super) fn take(
        &mut self,
        namespace: &Namespace,
        max: u64,
        (least, wanted): (u64, u64),
    ) -> Option<u64> {
        let published = self.published.entry(namespace.clone()).or_default();
        let counted = self
            .count
            .as_ref()
            .and_then(|count| count.jobs.get(namespace));
        let all = counted.copied().unwrap_or_default() + published.since();
        let jobs = max.saturating_sub(all).min(wanted);
        if jobs < least {
            return None;
        }
        published.taken += jobs;
        Some(jobs)
    }

    pub(super) fn begin_count(&mut self) {
        for published in self.published.values_mut() {
            published.complete_before_next = published.complete;
            published.uncertain_before_next = published.uncertain;
        }
    }

    pub(super) fn end_count(&mut self, count: JobCount) {
        let is_complete = count.is_complete;
        self.count = Some(count);
        if !is_complete {
            // The jobs may be in a bucket that was not read.
            return;
        }
        self.published.retain(|_, published| {
            let found = published.uncertain_before_next;
            published.uncertain -= found;
            published.complete += found;
            published.complete_before = published.complete_before_next + found;
            published.taken > published.complete_before
        });
    }
}

/// How a publish has ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct StoredJobs {
    /// New jobs that are stored.
    pub(crate) added: u64,
    /// Jobs that may be stored: there was no answer.
    pub(crate) uncertain: u64,
}

/// Room for the jobs of one publish. If it is dropped before the outcome is known, all of them may be stored.
#[derive(Debug)]
pub(crate) struct JobRoom {
    rooms: Arc<JobRooms>,
    namespace: Namespace,
    /// Of these the outcome is not known.
    jobs: u64,
}

impl JobRoom {
    pub(super) const fn new(rooms: Arc<JobRooms>, namespace: Namespace, jobs: u64) -> Self {
        Self {
            rooms,
            namespace,
            jobs,
        }
    }

    /// For how many jobs there is room.
    pub(crate) const fn jobs(&self) -> u64 {
        self.jobs
    }

    /// The publish is complete.
    pub(crate) fn complete(mut self, stored: StoredJobs) {
        let added = stored.added.min(self.jobs);
        let uncertain = stored.uncertain.min(self.jobs - added);
        let unused = self.jobs - added - uncertain;
        self.jobs = uncertain;
        let mut known = self.rooms.known.lock();
        if let Some(published) = known.published.get_mut(&self.namespace) {
            published.taken -= unused;
            published.complete += added;
        }
        drop(known);
    }
}

impl Drop for JobRoom {
    fn drop(&mut self) {
        let mut known = self.rooms.known.lock();
        if let Some(published) = known.published.get_mut(&self.namespace) {
            published.uncertain += self.jobs;
        }
    }
}

/// The jobs that count, as for `max_jobs` of a policy.
pub(crate) const fn unfinished(stats: JobsByState) -> u64 {
    stats.delayed + stats.ready + stats.leased + stats.dead
}

#[cfg(test)]
mod tests {
    use super::*;

    fn namespace() -> Namespace {
        Namespace::try_from("n").unwrap()
    }

    fn counted(known: &mut KnownJobs, jobs: u64) {
        known.end_count(count_of(jobs, true));
    }

    fn count_of(jobs: u64, is_complete: bool) -> JobCount {
        JobCount {
            began_at: Instant::now(),
            length: Duration::from_millis(10),
            is_complete,
            jobs: [(namespace(), jobs)].into(),
        }
    }

    fn complete(known: &mut KnownJobs, taken: u64, added: u64) {
        let published = known.published.get_mut(&namespace()).unwrap();
        published.taken -= taken - added;
        published.complete += added;
    }

    #[tokio::test]
    async fn publishes_since_the_begin_of_a_count_are_added_to_it() {
        let mut known = KnownJobs::default();
        known.begin_count();
        counted(&mut known, 4);
        let take =
            |known: &mut KnownJobs, least, wanted| known.take(&namespace(), 10, (least, wanted));
        assert_eq!(take(&mut known, 7, 7), None);
        assert_eq!(take(&mut known, 1, 7), Some(6));
        assert_eq!(take(&mut known, 1, 1), None);
        complete(&mut known, 6, 5);
        assert_eq!(take(&mut known, 1, 1), Some(1), "one was not stored");
        // The count finds the five jobs, and may miss the job whose publish is in flight.
        known.begin_count();
        counted(&mut known, 9);
        assert_eq!(take(&mut known, 1, 1), None);
        complete(&mut known, 1, 1);
        known.begin_count();
        counted(&mut known, 8);
        assert_eq!(take(&mut known, 2, 2), Some(2));
        assert_eq!(take(&mut known, 1, 1), None);
    }

    #[tokio::test(start_paused = true)]
    async fn a_count_is_renewed_when_it_is_old_or_half_of_its_room_is_used() {
        let mut known = KnownJobs::default();
        let take = |known: &mut KnownJobs| known.take(&namespace(), 10, (1, 1));
        take(&mut known);
        assert!(!known.is_to_be_renewed(&namespace(), 10), "there is none");
        known.begin_count();
        counted(&mut known, 6);
        take(&mut known);
        assert!(!known.is_to_be_renewed(&namespace(), 10));
        take(&mut known);
        assert!(known.is_to_be_renewed(&namespace(), 10), "3 of 4");
        assert!(!known.is_to_be_renewed(&namespace(), 100));
        tokio::time::advance(RENEWED_AFTER).await;
        assert!(known.is_to_be_renewed(&namespace(), 100));
        known.is_renewing = true;
        assert!(!known.is_to_be_renewed(&namespace(), 100));
    }

    #[tokio::test]
    async fn jobs_that_may_be_stored_count_until_all_buckets_were_read() {
        let rooms = Arc::new(JobRooms::default());
        counted(&mut rooms.known.lock(), 0);
        let take = || rooms.known.lock().take(&namespace(), 10, (1, 10));
        let room = |jobs| JobRoom::new(Arc::clone(&rooms), namespace(), jobs);
        assert_eq!(take(), Some(10));
        room(10).complete(StoredJobs {
            added: 3,
            uncertain: 4,
        });
        assert_eq!(take(), Some(3), "three were not stored");
        drop(room(3));
        let count = |jobs, is_complete| {
            let mut known = rooms.known.lock();
            known.begin_count();
            known.end_count(count_of(jobs, is_complete));
        };
        count(3, false);
        assert_eq!(take(), None);
        count(5, true);
        assert_eq!(take(), Some(5), "two of seven were stored");
    }

    #[tokio::test]
    async fn counts_are_renewed_less_often_if_they_take_long() {
        let count = |length| JobCount {
            length: Duration::from_millis(length),
            ..count_of(0, true)
        };
        let after = |length: u64| {
            let count = count(length);
            count.after(RENEWED_AFTER, RENEWED_AFTER_LENGTHS) - count.began_at
        };
        assert_eq!(after(0), RENEWED_AFTER);
        assert_eq!(after(20), RENEWED_AFTER);
        assert_eq!(after(300), Duration::from_secs(15));
    }

    #[tokio::test]
    async fn namespaces_that_publish_no_more_are_forgotten() {
        let mut known = KnownJobs::default();
        let taken = known.take(&namespace(), 10, (1, 1));
        assert_eq!(taken, Some(1), "there is no count yet");
        known.begin_count();
        counted(&mut known, 1);
        assert_eq!(known.published.len(), 1, "its publish is in flight");
        complete(&mut known, 1, 1);
        known.begin_count();
        counted(&mut known, 1);
        assert_eq!(known.published.len(), 0);
    }
}
