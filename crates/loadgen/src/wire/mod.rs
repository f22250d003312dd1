//! The two wires: requests that are built before they are sent, and answers, parsed without copies.

mod ack_requests;
mod lmstfy;
pub(crate) mod native;
mod publish_request;

use std::borrow::Cow;
use std::fmt::Display;
use std::io::Write;

use clap::ValueEnum;
use serde::Deserialize;

use crate::error::LoadgenError;
use crate::job_tracker::DeliveredJob;
use crate::server::TargetServer;
pub(crate) use ack_requests::AckRequests;
pub(crate) use publish_request::{KeyOption, PublishRequest};

/// Jobs per bulk publish: the maximum of lmstfy.
pub(crate) const BULK: u64 = 64;

/// The HTTP API that a run uses.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Wire {
    /// That of lmstfy, `/api`
    Lmstfy,
    /// The native one, `/v1`
    Native,
}

impl Wire {
    /// The name on the command line.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Lmstfy => "lmstfy",
            Self::Native => "native",
        }
    }

    /// Jobs per consume of several jobs: the maximum of lmstfy, and as many as a native batch.
    pub(crate) const fn take(self) -> usize {
        match self {
            Self::Lmstfy => 100,
            Self::Native => 64,
        }
    }

    /// The status of a publish of several jobs.
    pub(crate) const fn bulk_status(self) -> u16 {
        match self {
            Self::Lmstfy => 201,
            Self::Native => 200,
        }
    }

    /// Parses the answer to a publish: the id of the job.
    pub(crate) fn published(self, body: &[u8]) -> Result<Cow<'_, str>, LoadgenError> {
        match self {
            Self::Lmstfy => lmstfy::published(body),
            Self::Native => native::published(body).map(|job| job.id),
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

    /// Parses the answer to a consume. Calls `take` with each job, or `None` for a job that this program did not publish,
    /// and with what its ack needs: the id, or the lease.
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

/// Builds requests to one server.
#[derive(Debug, Clone)]
pub(crate) struct RequestBuilder {
    pub(crate) wire: Wire,
    /// The path up to the part that differs.
    prefix: String,
    /// What follows the path: host and credential.
    headers: String,
}

impl RequestBuilder {
    pub(crate) fn new(server: &TargetServer) -> Self {
        let TargetServer {
            wire,
            namespace,
            credential,
            address,
            ..
        } = server;
        let (root, authorization) = match wire {
            Wire::Lmstfy => ("api", format!("X-Token: {credential}")),
            Wire::Native => ("v1", format!("Authorization: Bearer {credential}")),
        };
        Self {
            wire: *wire,
            prefix: format!("/{root}/{namespace}/"),
            headers: format!(" HTTP/1.1\r\nHost: {address}\r\n{authorization}\r\n"),
        }
    }

    /// Appends the request line and the headers that every request has. `rest` is the path behind the namespace.
    pub(crate) fn write_head(&self, out: &mut Vec<u8>, method: &str, rest: impl Display) {
        // Writing to a vector cannot fail.
        let _ = write!(out, "{method} {}{rest}{}", self.prefix, self.headers);
    }

    /// Appends a request without a body.
    pub(crate) fn write_without_body(&self, out: &mut Vec<u8>, method: &str, rest: impl Display) {
        self.write_head(out, method, rest);
        out.extend_from_slice(b"\r\n");
    }

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

fn parse<'a, T: Deserialize<'a>>(doing: &str, body: &'a [u8]) -> Result<T, LoadgenError> {
    serde_json::from_slice(body).map_err(|_| LoadgenError::unexpected(doing, 200, body))
}
