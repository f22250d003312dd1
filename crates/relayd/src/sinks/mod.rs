//! Where jobs go.

pub(crate) mod kafka;
pub(crate) mod nats;
pub(crate) mod rabbitmq;
pub(crate) mod tidegate;
pub(crate) mod webhook;

use futures_util::future::BoxFuture;

use crate::job::{DeliveryOutcome, RelayJob};

/// The header, or property, with the id of a job.
pub(crate) const ID_HEADER: &str = "tidegate-id";
/// The beginning of the headers with the attributes of a job, as in the API.
pub(crate) const ATTRIBUTE_HEADER: &str = "Job-Attr-";

/// The header with the span of the relay, or of the delivery to it: <https://www.w3.org/TR/trace-context/>.
pub(crate) const TRACE_PARENT_HEADER: &str = "traceparent";

/// A receiver of jobs.
pub(crate) trait RelaySink: Send + Sync {
    /// The most jobs of one call.
    fn batch_max(&self) -> usize {
        usize::MAX
    }

    /// Delivers jobs, and returns one outcome for each, in order. Takes at most the time limit of the sink.
    fn deliver<'a>(&'a self, jobs: &'a [RelayJob]) -> BoxFuture<'a, Vec<DeliveryOutcome>>;
}

/// The outcome of all jobs of a call to a sink that is unavailable.
pub(crate) fn all_unavailable(jobs: &[RelayJob], reason: &str) -> Vec<DeliveryOutcome> {
    jobs.iter()
        .map(|_| DeliveryOutcome::Unavailable(reason.to_owned()))
        .collect()
}
