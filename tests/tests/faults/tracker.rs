//! The deliveries and acks of each job, as its consumers saw them.

use std::collections::BTreeSet;
use std::sync::{Mutex, MutexGuard};

use tidegate_testkit::ReceivedJob;

use crate::jobs::Batch;

#[derive(Debug, Clone, Default)]
pub(crate) struct Story {
    pub(crate) id: String,
    pub(crate) queue: usize,
    pub(crate) tries: u64,
    /// The tries left at each delivery, in order.
    pub(crate) deliveries: Vec<u64>,
    pub(crate) acked: bool,
}

impl Story {
    /// Whether this job may not be delivered any more.
    pub(crate) fn is_over(&self) -> bool {
        self.acked || (self.tries > 0 && self.deliveries.len() as u64 >= self.tries)
    }
}

/// The histories of all jobs, by their numbers.
#[derive(Debug)]
pub(crate) struct Ledger(Mutex<Vec<Story>>);

impl Ledger {
    pub(crate) fn new(jobs: usize) -> Self {
        Self(Mutex::new(vec![Story::default(); jobs]))
    }

    pub(crate) fn job_stories(&self) -> MutexGuard<'_, Vec<Story>> {
        self.0.lock().unwrap()
    }

    /// Records the parameters of jobs before they are published.
    pub(crate) fn announce(&self, batch: &Batch) {
        let mut job_stories = self.job_stories();
        for number in &batch.numbers {
            job_stories[*number].tries = batch.tries;
            job_stories[*number].queue = batch.queue;
        }
    }

    pub(crate) fn published(&self, batch: &Batch, ids: Vec<String>) {
        assert_eq!(batch.numbers.len(), ids.len());
        let mut job_stories = self.job_stories();
        for (number, id) in batch.numbers.iter().zip(ids) {
            job_stories[*number].id = id;
        }
    }

    /// Records a delivery and returns the number of the job.
    pub(crate) fn delivered(&self, job: &ReceivedJob) -> usize {
        let number: usize = job.text().parse().unwrap();
        let job_story = &mut self.job_stories()[number];
        job_story.deliveries.push(job.remain_tries);
        number
    }

    pub(crate) fn acked(&self, number: usize) {
        self.job_stories()[number].acked = true;
    }

    /// How many jobs may still be delivered.
    pub(crate) fn open(&self) -> usize {
        self.job_stories()
            .iter()
            .filter(|job_story| !job_story.is_over())
            .count()
    }

    /// Checks every history: no job was delivered more often than it had tries, none twice with the same
    /// tries left, and one that was not acked used up all of them. Returns the jobs that must be dead.
    pub(crate) fn judge(&self) -> Vec<Story> {
        let job_stories = self.job_stories();
        for (number, job_story) in job_stories.iter().enumerate() {
            let deliveries = job_story.deliveries.len() as u64;
            let left: BTreeSet<u64> = job_story.deliveries.iter().copied().collect();
            let expected: BTreeSet<u64> =
                (job_story.tries - deliveries.min(job_story.tries)..job_story.tries).collect();
            assert_eq!(
                left, expected,
                "job {number} came with wrong tries: {job_story:?}"
            );
            assert_eq!(
                left.len() as u64,
                deliveries,
                "job {number} moved twice: {job_story:?}"
            );
            assert!(
                job_story.acked || deliveries == job_story.tries,
                "job {number} is lost: {job_story:?}"
            );
        }
        job_stories
            .iter()
            .filter(|job_story| !job_story.acked)
            .cloned()
            .collect()
    }
}
