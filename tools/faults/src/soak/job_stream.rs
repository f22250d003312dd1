//! The requests of a soak, sorted by job. The judge gets the requests of jobs that have ended, or that are overdue,
//! and they are dropped then, so memory does not grow with the length of the run.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::time::Duration;

use tidegate_core::v1::consume::Outcome;

use super::closed_jobs::ClosedJobs;
use super::load::DrawnJob;
use super::open_job::OpenJob;
use crate::history::{CancelEffect, Delivery, Operation, RequestOutcome, UnixMicros, in_micros};
use crate::oracle::{Defect, Finding};

/// How many jobs of unknown fate are remembered after the stream has stopped waiting for them.
const FORGOTTEN_MAX: usize = 10_000;
/// How many requests that brought no job are remembered: one of them may have reserved a job.
const WITHOUT_JOB_MAX: usize = 4000;
/// How many findings are described; all are counted.
const DESCRIBED_MAX: usize = 20;

/// Numbers of jobs and of findings.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SoakCounts {
    /// Jobs whose publish was confirmed.
    pub published: u64,
    /// Jobs that were acknowledged or cancelled.
    pub ended: u64,
    /// Deliveries, repeated ones included.
    pub deliveries: u64,
    /// Jobs without a clear answer that never came: they may have never existed, or have ended.
    pub unknown: u64,
    /// Findings of the judge, by kind.
    pub findings: BTreeMap<Defect, u64>,
}

/// A job that was received.
#[derive(Debug)]
pub(super) struct StreamDelivery {
    pub(super) number: u64,
    pub(super) got: Delivery,
    /// The job as it was drawn; `None` if it has ended already.
    pub(super) drawn: Option<DrawnJob>,
    pub(super) is_first: bool,
}

/// Whether a job does not exist any more after a request.
fn has_ended(outcome: &RequestOutcome) -> bool {
    match outcome {
        RequestOutcome::Settled(results) => results
            .iter()
            .any(|result| matches!(result, Outcome::Done { .. } | Outcome::Gone)),
        RequestOutcome::Cancelled { effect, .. } => *effect != CancelEffect::Requested,
        RequestOutcome::NotFound => true,
        _ => false,
    }
}

#[derive(Debug)]
pub(super) struct JobStream {
    next: u64,
    open: HashMap<u64, OpenJob>,
    /// Jobs to be judged.
    closed: Vec<OpenJob>,
    /// How many of the open jobs have ended.
    ended_open: usize,
    without_job: VecDeque<Operation>,
    forgotten: VecDeque<u64>,
    counts: SoakCounts,
    described: Vec<String>,
    /// How long after its due time a job may stay undelivered, in µs.
    patience: u64,
}

impl JobStream {
    pub(super) fn new(patience: Duration) -> Self {
        Self {
            next: 0,
            open: HashMap::new(),
            closed: Vec::new(),
            ended_open: 0,
            without_job: VecDeque::new(),
            forgotten: VecDeque::new(),
            counts: SoakCounts::default(),
            described: Vec::new(),
            patience: in_micros(patience),
        }
    }

    pub(super) fn counts(&self) -> SoakCounts {
        self.counts.clone()
    }

    /// The first findings, in words.
    pub(super) fn described(&self) -> &[String] {
        &self.described
    }

    /// Number of jobs that have not ended.
    pub(super) fn pending(&self) -> usize {
        self.open.len() - self.ended_open
    }

    /// Numbers a job that is about to be published. Its publisher must release it.
    pub(super) fn begin(&mut self, drawn: DrawnJob, now: UnixMicros) -> u64 {
        let number = self.next;
        self.next += 1;
        let expected = now + in_micros(drawn.delay);
        let job = OpenJob {
            drawn,
            operations: Vec::new(),
            expected,
            users: 1,
            deliveries: 0,
            is_published: false,
            has_ended: false,
        };
        self.open.insert(number, job);
        number
    }

    /// Adds a request about a job.
    pub(super) fn record(&mut self, number: u64, operation: Operation) {
        let Some(job) = self.open.get_mut(&number) else {
            return;
        };
        let is_publish = matches!(operation.outcome, RequestOutcome::Published(_));
        if is_publish && !job.is_published {
            job.is_published = true;
            self.counts.published += 1;
        }
        if has_ended(&operation.outcome) && !job.has_ended {
            job.has_ended = true;
            self.ended_open += 1;
            self.counts.ended += 1;
        }
        job.add(operation);
    }

    /// A client sends no further requests about a job.
    pub(super) fn release(&mut self, number: u64) {
        if let Some(job) = self.open.get_mut(&number) {
            job.users -= 1;
            if job.users == 0 && (job.has_ended || job.was_refused()) {
                self.close(number);
            }
        }
    }

    /// Adds an answer to a request for jobs. Its receiver must release each of them.
    pub(super) fn deliver(&mut self, operation: Operation) -> Vec<StreamDelivery> {
        let jobs = match &operation.outcome {
            RequestOutcome::Delivered(jobs) if !jobs.is_empty() => jobs.clone(),
            _ => {
                if self.without_job.len() == WITHOUT_JOB_MAX {
                    self.without_job.pop_front();
                }
                self.without_job.push_back(operation);
                return Vec::new();
            }
        };
        let jobs = jobs.into_iter();
        let received = jobs.filter_map(|got| {
            let alone = Operation {
                outcome: RequestOutcome::Delivered(vec![got.clone()]),
                ..operation.clone()
            };
            self.deliver_one(got, alone)
        });
        received.collect()
    }

    fn deliver_one(&mut self, got: Delivery, operation: Operation) -> Option<StreamDelivery> {
        self.counts.deliveries += 1;
        let Some(number) = got.number.filter(|number| *number < self.next) else {
            let text = format!("job {} is of another program", got.id);
            self.add_finding(Defect::Foreign, text);
            return None;
        };
        let Some(job) = self.open.get_mut(&number) else {
            if !self.forgotten.contains(&number) {
                let text = format!("job {number} was delivered after it had ended");
                self.add_finding(Defect::AfterItsEnd, text);
            }
            let (drawn, is_first) = (None, false);
            return Some(StreamDelivery {
                number,
                got,
                drawn,
                is_first,
            });
        };
        job.users += 1;
        job.deliveries += 1;
        let (drawn, is_first) = (Some(job.drawn), job.deliveries == 1);
        job.add(operation);
        Some(StreamDelivery {
            number,
            got,
            drawn,
            is_first,
        })
    }

    /// Closes jobs that should have come by now. The judge decides whether they are lost.
    fn close_overdue(&mut self, now: UnixMicros) {
        let patience = self.patience;
        let is_overdue = |job: &OpenJob| job.users == 0 && now > job.expected + patience;
        let overdue = self.open.iter().filter(|(_, job)| is_overdue(job));
        let overdue: Vec<u64> = overdue.map(|(number, _)| *number).collect();
        for number in overdue {
            if self.forgotten.len() == FORGOTTEN_MAX {
                self.forgotten.pop_front();
            }
            self.forgotten.push_back(number);
            let job = &self.open[&number];
            let is_unknown = job.operations.iter().any(|it| it.outcome.is_unknown());
            self.counts.unknown += u64::from(is_unknown);
            self.close(number);
        }
    }

    fn close(&mut self, number: u64) {
        if let Some(job) = self.open.remove(&number) {
            self.ended_open -= usize::from(job.has_ended);
            self.closed.push(job);
        }
    }

    /// Takes what is to be judged; `None` if there is nothing.
    pub(super) fn take_closed(&mut self, now: UnixMicros) -> Option<ClosedJobs> {
        self.close_overdue(now);
        let jobs = std::mem::take(&mut self.closed);
        let without_job = self.without_job.iter().cloned();
        (!jobs.is_empty()).then(|| ClosedJobs {
            jobs,
            without_job: without_job.collect(),
            patience: self.patience,
        })
    }

    /// Adds what was found.
    pub(super) fn add_findings(&mut self, findings: Vec<Finding>) {
        for Finding { defect, text, .. } in findings {
            self.add_finding(defect, text);
        }
    }

    fn add_finding(&mut self, defect: Defect, text: String) {
        *self.counts.findings.entry(defect).or_default() += 1;
        if self.described.len() < DESCRIBED_MAX {
            self.described.push(format!("{defect}: {text}"));
        }
    }
}

#[cfg(test)]
mod tests;
