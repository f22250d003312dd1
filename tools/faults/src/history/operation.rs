//! One request of a client with its outcome: the event of which a history consists.

use std::ops::RangeInclusive;

use serde::{Deserialize, Serialize};

use super::outcome::{Delivery, RequestOutcome};
use super::request::{ClientRequest, Wire};
use super::time::Span;

/// The lengths of leases of jobs that have their own, in µs.
pub(crate) const JOB_LEASES: RangeInclusive<u64> = 300_000..=2_000_000;

/// One request and its outcome.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Operation {
    pub wire: Wire,
    /// The number of its token; 0 = the token of most clients.
    pub token: u16,
    /// Whether the client was connected to the API without a proxy.
    pub is_without_proxy: bool,
    /// From just before the request was sent to just after its answer was read, or the client gave up.
    pub span: Span,
    pub request: ClientRequest,
    pub outcome: RequestOutcome,
}

impl Operation {
    /// Returns the queues of a request for jobs, and the shortest and the longest lease that it may take, in µs.
    pub(crate) fn reserve(&self) -> Option<(&[u16], RangeInclusive<u64>)> {
        let ClientRequest::Reserve { queues, lease, .. } = &self.request else {
            return None;
        };
        let leases = lease.map_or(JOB_LEASES, |lease| lease..=lease);
        Some((queues, leases))
    }

    /// Returns the jobs in its answer; `None` if it is not an answer with jobs.
    pub(crate) fn delivered(&self) -> Option<&[Delivery]> {
        match &self.outcome {
            RequestOutcome::Delivered(jobs) => Some(jobs),
            _ => None,
        }
    }
}
