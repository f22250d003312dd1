//! Requests for jobs, of either API.

use std::ops::RangeInclusive;

use super::native::{NativeAnswer, NativeCall};
use super::operation::{ClientRequest, Operation, RequestOutcome};
use super::time::UnixMicros;

/// The lengths of leases of jobs that have their own, in µs.
pub(crate) const JOB_LEASES: RangeInclusive<u64> = 300_000..=2_000_000;

/// A request for jobs.
#[derive(Debug, Clone)]
pub(crate) struct ReserveCall<'a> {
    /// The numbers of the queues.
    pub(crate) queues: &'a [u16],
    /// The shortest and the longest lease that it may take, in µs.
    pub(crate) leases: RangeInclusive<u64>,
}

impl Operation {
    /// Returns the request, if it is one for jobs.
    pub(crate) fn reserve_call(&self) -> Option<ReserveCall<'_>> {
        match &self.request {
            ClientRequest::Consume { queues, ttr, .. } => Some(ReserveCall {
                queues,
                leases: *ttr..=*ttr,
            }),
            ClientRequest::Native(NativeCall::Reserve { queues, lease, .. }) => Some(ReserveCall {
                queues,
                leases: lease.map_or(JOB_LEASES, |lease| lease..=lease),
            }),
            _ => None,
        }
    }

    /// Whether it is a request for jobs that was answered without one.
    pub(crate) fn found_no_job(&self) -> bool {
        match &self.outcome {
            RequestOutcome::Delivered(jobs) => jobs.is_empty(),
            RequestOutcome::Native(NativeAnswer::Reserved(jobs)) => jobs.is_empty(),
            _ => false,
        }
    }

    /// Returns the queues of the jobs in its answer, and when their leases began; `None` if it has no answer with
    /// jobs.
    pub(crate) fn reserved_jobs(&self) -> Option<Vec<(u16, UnixMicros)>> {
        match &self.outcome {
            RequestOutcome::Delivered(jobs) => {
                let jobs = jobs.iter().map(|job| (job.queue, job.reserved()));
                Some(jobs.collect())
            }
            RequestOutcome::Native(NativeAnswer::Reserved(jobs)) => {
                let jobs = jobs.iter().map(|job| (job.queue, job.reserved));
                Some(jobs.collect())
            }
            _ => None,
        }
    }
}
