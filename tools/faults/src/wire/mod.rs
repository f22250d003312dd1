//! Requests of a history as HTTP requests of either wire, and the answers as outcomes.

mod http_request;
mod key_text;
mod lmstfy;
mod native_outcome;
mod native_publish;
mod native_request;
mod payload;
mod queue_name;

use std::time::Duration;

use tidegate_testkit::Answer;

use crate::history::{ClientRequest, JOB_LEASES, RequestOutcome, Wire};
pub(crate) use http_request::HttpRequest;
pub(crate) use payload::ATTRIBUTES_MAX;
pub(crate) use queue_name::queue_name;

/// The status in a history of an answer that could not be read.
pub(crate) const UNREADABLE: u16 = 599;

/// Returns the HTTP form of a request. A reserve waits for jobs for `wait`.
pub(crate) fn http_request(wire: Wire, request: &ClientRequest, wait: Duration) -> HttpRequest {
    match wire {
        Wire::Lmstfy => lmstfy::http_request(request, wait),
        Wire::Native => native_request::http_request(request, wait),
    }
}

/// Returns the outcome of a request with this answer.
pub(crate) fn outcome(wire: Wire, request: &ClientRequest, answer: &Answer) -> RequestOutcome {
    let read = match wire {
        Wire::Lmstfy => lmstfy::outcome(request, answer),
        Wire::Native => native_outcome::outcome(request, answer),
    };
    read.unwrap_or(RequestOutcome::Failed(UNREADABLE))
}

/// Returns the length of the lease of the version with this number, in µs.
pub(crate) const fn job_lease(number: u64) -> u64 {
    let (shortest, longest) = (*JOB_LEASES.start(), *JOB_LEASES.end());
    shortest + number % 18 * (longest - shortest) / 17
}
