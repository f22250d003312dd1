//! A job of a soak that has not ended.

use tidegate_core::v1::consume::Outcome;

use super::load::DrawnJob;
use crate::history::{Operation, RequestOutcome, UnixMicros, micros};

/// A job that has not ended, or that a client still uses.
#[derive(Debug)]
pub(super) struct OpenJob {
    pub(super) drawn: DrawnJob,
    pub(super) operations: Vec<Operation>,
    /// When it should come at the latest, as far as is known.
    pub(super) expected: UnixMicros,
    /// Clients that may send further requests about it.
    pub(super) users: usize,
    pub(super) deliveries: usize,
    pub(super) is_published: bool,
    pub(super) has_ended: bool,
}

impl OpenJob {
    /// Whether it never existed.
    pub(super) fn was_refused(&self) -> bool {
        self.operations.iter().all(|it| it.outcome.is_refused())
    }

    /// Takes a request about it into account.
    pub(super) fn add(&mut self, operation: Operation) {
        let next = match &operation.outcome {
            RequestOutcome::Delivered(jobs) => jobs.iter().map(|job| job.lease_until).max(),
            RequestOutcome::Settled(results) => results.iter().find_map(|result| match result {
                Outcome::Retry { run_at } => Some(micros(*run_at)),
                _ => None,
            }),
            _ => None,
        };
        self.expected = self.expected.max(operation.span.to).max(next.unwrap_or(0));
        self.operations.push(operation);
    }
}
