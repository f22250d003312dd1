//! The deliveries and acks of each job, as its consumers saw them.

use std::collections::BTreeSet;
use std::sync::{Mutex, MutexGuard};

use tidegate_testkit::ReceivedJob;

use crate::jobs::Batch;

#[derive(Debug, Clone, Default)]
pub(crate) struct JobHistory {
    pub(crate) id: String,
    pub(crate) queue: usize,
    pub(crate) tries: u64,
    /// The tries left at each delivery, in order.
    pub(crate) deliveries: Vec<u64>,
    pub(crate) acked: bool,
}

impl JobHistory {
    /// Whether this job may not be delivered any more.
    pub(crate) fn is_over(&self) -> bool {
        self.acked || (self.tries > 0 && self.deliveries.len() as u64 >= self.tries)
    }
}

/// The histories of all jobs, by their numbers.
#[derive(Debug)]
pub(crate) struct Ledger(Mutex<Vec<JobHistory>>);

impl Ledger {
    pub(crate) fn new(jobs: usize) -> Self {
        Self(Mutex::new(vec![JobHistory::default(); jobs]))
    }

    pub(crate) fn histories(&self) -> MutexGuard<'_, Vec<JobHistory>> {
        self.0.lock().unwrap()
    }

    /// Records the parameters of jobs before they are published.
    pub(crate) fn announce(&self, batch: &Batch) {
        let mut histories = self.histories();
        for number in &batch.numbers {
            histories[*number].tries = batch.tries;
            histories[*number].queue = batch.queue;
        }
    }

    pub(crate) fn published(&self, batch: &Batch, ids: Vec<String>) {
        assert_eq!(batch.numbers.len(), ids.len());
        let mut histories = self.histories();
        for (number, id) in batch.numbers.iter().zip(ids) {
            histories[*number].id = id;
        }
    }

    /// Records a delivery and returns the number of the job.
    pub(crate) fn delivered(&self, job: &ReceivedJob) -> usize {
        let number: usize = job.text().parse().unwrap();
        let history = &mut self.histories()[number];
        history.deliveries.push(job.remain_tries);
        number
    }

    pub(crate) fn acked(&self, number: usize) {
        self.histories()[number].acked = true;
    }

    /// How many jobs may still be delivered.
    pub(crate) fn open(&self) -> usize {
        self.histories()
            .iter()
            .filter(|history| !history.is_over())
            .count()
    }

    /// Checks every history: no job was delivered more often than it had tries, none twice with the same
    /// tries left, and one that was not acked used up all of them. Returns the jobs that must be dead.
    pub(crate) fn judge(&self) -> Vec<JobHistory> {
        let histories = self.histories();
        for (number, history) in histories.iter().enumerate() {
            let deliveries = history.deliveries.len() as u64;
            let left: BTreeSet<u64> = history.deliveries.iter().copied().collect();
            let expected: BTreeSet<u64> =
                (history.tries - deliveries.min(history.tries)..history.tries).collect();
            assert_eq!(
                left, expected,
                "job {number} came with wrong tries: {history:?}"
            );
            assert_eq!(
                left.len() as u64,
                deliveries,
                "job {number} moved twice: {history:?}"
            );
            assert!(
                history.acked || deliveries == history.tries,
                "job {number} is lost: {history:?}"
            );
        }
        histories
            .iter()
            .filter(|history| !history.acked)
            .cloned()
            .collect()
    }
}
