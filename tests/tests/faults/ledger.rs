//! What happened to each job, as its consumers saw it.

use std::collections::BTreeSet;
use std::sync::{Mutex, MutexGuard};

use tidegate_testkit::Delivery;

use crate::jobs::Batch;

/// The story of one job.
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
    /// Whether nothing more may happen to consumers of this job.
    pub(crate) fn is_over(&self) -> bool {
        self.acked || (self.tries > 0 && self.deliveries.len() as u64 >= self.tries)
    }
}

/// The stories of all jobs, by their numbers.
#[derive(Debug)]
pub(crate) struct Ledger(Mutex<Vec<Story>>);

impl Ledger {
    pub(crate) fn new(jobs: usize) -> Self {
        Self(Mutex::new(vec![Story::default(); jobs]))
    }

    pub(crate) fn stories(&self) -> MutexGuard<'_, Vec<Story>> {
        self.0.lock().unwrap()
    }

    /// Notes the terms of jobs that are about to be published.
    pub(crate) fn announce(&self, batch: &Batch) {
        let mut stories = self.stories();
        for number in &batch.numbers {
            stories[*number].tries = batch.tries;
            stories[*number].queue = batch.queue;
        }
    }

    pub(crate) fn published(&self, batch: &Batch, ids: Vec<String>) {
        assert_eq!(batch.numbers.len(), ids.len());
        let mut stories = self.stories();
        for (number, id) in batch.numbers.iter().zip(ids) {
            stories[*number].id = id;
        }
    }

    /// Notes a delivery and answers the job's number.
    pub(crate) fn delivered(&self, job: &Delivery) -> usize {
        let number: usize = job.text().parse().unwrap();
        let story = &mut self.stories()[number];
        story.deliveries.push(job.remain_tries);
        number
    }

    pub(crate) fn acked(&self, number: usize) {
        self.stories()[number].acked = true;
    }

    /// How many stories are not over yet.
    pub(crate) fn open(&self) -> usize {
        self.stories()
            .iter()
            .filter(|story| !story.is_over())
            .count()
    }

    /// Checks every story: no job was delivered more often than it had tries, none twice with the same
    /// tries left, and one that was not acked used up all of them. Answers the jobs that must be dead.
    pub(crate) fn judge(&self) -> Vec<Story> {
        let stories = self.stories();
        for (number, story) in stories.iter().enumerate() {
            let deliveries = story.deliveries.len() as u64;
            let left: BTreeSet<u64> = story.deliveries.iter().copied().collect();
            let expected: BTreeSet<u64> =
                (story.tries - deliveries.min(story.tries)..story.tries).collect();
            assert_eq!(
                left, expected,
                "job {number} came with wrong tries: {story:?}"
            );
            assert_eq!(
                left.len() as u64,
                deliveries,
                "job {number} moved twice: {story:?}"
            );
            assert!(
                story.acked || deliveries == story.tries,
                "job {number} is lost: {story:?}"
            );
        }
        stories
            .iter()
            .filter(|story| !story.acked)
            .cloned()
            .collect()
    }
}
