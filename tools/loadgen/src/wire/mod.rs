//! The two wires: requests that are built before they are sent, and answers, parsed without copies.

pub(crate) mod ack_requests;
mod lmstfy;
pub(crate) mod native;
mod parse;
pub(crate) mod protocol;
pub(crate) mod publish_request;
pub(crate) mod request;

use std::borrow::Cow;

use crate::error::LoadgenError;
use crate::job_tracker::DeliveredJob;
use protocol::Wire;
use request::RequestBuilder;

impl Wire {
    /// Parses the answer to a publish: the id of the job.
    pub(crate) fn published(self, body: &[u8]) -> Result<Cow<'_, str>, LoadgenError> {
        match self {
            Self::Lmstfy => lmstfy::published(body),
            Self::Native => native::published(body),
        }
    }

    /// Parses the answer to a publish of several jobs: their number, and the id of the first.
    pub(crate) fn published_bulk(self, body: &[u8]) -> Result<(u64, Cow<'_, str>), LoadgenError> {
        match self {
            Self::Lmstfy => lmstfy::published_bulk(body),
            Self::Native => native::published_batch(body),
        }
    }

    /// Parses the number of ready jobs of a queue.
    pub(crate) fn size(self, body: &[u8]) -> Result<u64, LoadgenError> {
        match self {
            Self::Lmstfy => lmstfy::size(body),
            Self::Native => native::size(body),
        }
    }

    /// Parses the answer to a consume. Calls `take` with each job, or `None` for a job that this program did not
    /// publish, and with the id or the lease that its ack needs.
    pub(crate) fn consumed(
        self,
        body: &[u8],
        received_us: u64,
        take: impl FnMut(Option<DeliveredJob>, &str),
    ) -> Result<(), LoadgenError> {
        match self {
            Self::Lmstfy => lmstfy::consumed(body, received_us, take),
            Self::Native => native::consumed(body, received_us, take),
        }
    }
}

impl RequestBuilder {
    /// Returns a request that consumes up to `count` jobs of a queue, and waits up to `timeout` seconds
    /// for the first.
    pub(crate) fn consume(&self, queue: &str, count: usize, timeout: u32) -> Vec<u8> {
        match self.wire {
            Wire::Lmstfy => lmstfy::consume(self, queue, count, timeout),
            Wire::Native => native::reserve(self, queue, count, timeout),
        }
    }

    /// Returns a request for the size of a queue.
    pub(crate) fn size(&self, queue: &str) -> Vec<u8> {
        let mut request = Vec::new();
        match self.wire {
            Wire::Lmstfy => {
                self.write_without_body(&mut request, "GET", format_args!("{queue}/size"));
            }
            Wire::Native => {
                self.write_without_body(&mut request, "GET", format_args!("queues/{queue}"));
            }
        }
        request
    }
}
