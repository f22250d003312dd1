//! Jobs of a soak that have ended or are overdue, and the findings of the judge.

use super::load::QUEUES;
use super::open_job::OpenJob;
use crate::history::{History, Operation};
use crate::oracle::{Defect, Finding, judge};

/// Jobs to be judged.
#[derive(Debug)]
pub(super) struct ClosedJobs {
    pub(super) jobs: Vec<OpenJob>,
    /// Requests that brought no job: one of them may have reserved one.
    pub(super) without_job: Vec<Operation>,
    pub(super) patience: u64,
}

impl ClosedJobs {
    /// Judges them. Lateness is not judged: the patience is above each bound that proves something about it. Neither is
    /// order, since most requests that waited and left are forgotten.
    pub(super) fn judge(self) -> Vec<Finding> {
        let operations = self.jobs.into_iter().flat_map(|job| job.operations);
        let mut operations: Vec<Operation> = operations.chain(self.without_job).collect();
        operations.sort_by_key(|operation| operation.span.to);
        let begins = operations.iter().map(|operation| operation.span.from);
        let history = History {
            bound: self.patience,
            laned: (0..QUEUES).collect(),
            began: begins.min().unwrap_or_default(),
            ended: operations.last().map_or(0, |last| last.span.to),
            operations,
            ..History::default()
        };
        let mut findings = judge(&history).findings;
        // A failed request is an error of the soak, which its report counts.
        findings.retain(|finding| finding.defect != Defect::Refused);
        findings
    }
}
