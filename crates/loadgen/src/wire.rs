//! Requests of the lmstfy wire, prepared once, and its answers, parsed without copies.

use std::borrow::Cow;
use std::fmt::Display;
use std::io::Write;

use serde::Deserialize;

use crate::body::{BODY_BYTES_MIN, JobLabel};
use crate::clock;
use crate::error::LoadgenError;
use crate::job_tracker::{DeliveredJob, TTR_SECONDS};
use crate::server::TargetServer;

/// TTL of all jobs: a day longer than the longest delay of any scenario, so that nothing expires during a
/// run.
const TTL_SECONDS: u32 = 2 * 86_400;

/// Builds requests to one server.
#[derive(Debug, Clone)]
pub(crate) struct RequestBuilder {
    host: String,
    token: String,
    namespace: String,
}

impl RequestBuilder {
    pub(crate) fn new(server: &TargetServer) -> Self {
        Self {
            host: server.address.to_string(),
            token: server.token.clone(),
            namespace: server.namespace.clone(),
        }
    }

    /// A request without a body.
    pub(crate) fn without_body(&self, method: &str, rest: &str) -> Vec<u8> {
        let mut request = Vec::new();
        self.write_without_body(&mut request, method, rest);
        request
    }

    /// Appends a request without a body.
    pub(crate) fn write_without_body(&self, out: &mut Vec<u8>, method: &str, rest: impl Display) {
        self.write_head(out, method, rest);
        out.extend_from_slice(b"\r\n");
    }

    /// Appends the head of a publish request with a body of `bytes` bytes.
    fn with_body(&self, out: &mut Vec<u8>, rest: &str, bytes: usize) {
        self.write_head(out, "PUT", rest);
        // Writing to a vector cannot fail.
        let _ = write!(out, "Content-Length: {bytes}\r\n\r\n");
    }

    /// Appends the request line and the headers that every request has.
    fn write_head(&self, out: &mut Vec<u8>, method: &str, rest: impl Display) {
        let Self {
            host,
            token,
            namespace,
        } = self;
        let _ = write!(
            out,
            "{method} /api/{namespace}/{rest} HTTP/1.1\r\nHost: {host}\r\nX-Token: {token}\r\n"
        );
    }

    /// Returns a request that consumes up to `count` jobs of a queue, and waits up to `timeout` seconds
    /// for the first.
    pub(crate) fn consume(&self, queue: &str, count: usize, timeout: u32) -> Vec<u8> {
        let rest = format!("{queue}?ttr={TTR_SECONDS}&timeout={timeout}&count={count}");
        self.without_body("GET", &rest)
    }

    /// Appends a request that acknowledges a job. Acknowledgements may be pipelined.
    pub(crate) fn write_ack(&self, out: &mut Vec<u8>, queue: &str, id: &str) {
        self.write_without_body(out, "DELETE", format_args!("{queue}/job/{id}"));
    }
}

/// Writes publish requests of one job or of several.
#[derive(Debug)]
pub(crate) struct PublishRequest {
    requests: RequestBuilder,
    body_bytes: usize,
    bytes: Vec<u8>,
    body: Vec<u8>,
}

impl PublishRequest {
    pub(crate) fn new(requests: RequestBuilder, body_bytes: usize) -> Self {
        Self {
            requests,
            body_bytes: body_bytes.max(BODY_BYTES_MIN),
            bytes: Vec::new(),
            body: Vec::new(),
        }
    }

    /// Returns a publish request of one job.
    pub(crate) fn one(&mut self, queue: &str, label: JobLabel) -> &[u8] {
        self.bytes.clear();
        let rest = format!("{queue}?delay={}&ttl={TTL_SECONDS}&tries=1", label.delay);
        self.requests
            .with_body(&mut self.bytes, &rest, self.body_bytes);
        label.write(&mut self.bytes, self.body_bytes);
        &self.bytes
    }

    /// Returns a bulk publish request of jobs with the same delay, in seconds.
    pub(crate) fn bulk(
        &mut self,
        queue: &str,
        delay: u32,
        labels: impl Iterator<Item = JobLabel>,
    ) -> &[u8] {
        self.body.clear();
        self.body.push(b'[');
        for label in labels {
            if self.body.len() > 1 {
                self.body.push(b',');
            }
            label.write(&mut self.body, self.body_bytes);
        }
        self.body.push(b']');
        self.bytes.clear();
        let rest = format!("{queue}/bulk?delay={delay}&ttl={TTL_SECONDS}&tries=1");
        self.requests
            .with_body(&mut self.bytes, &rest, self.body.len());
        self.bytes.extend_from_slice(&self.body);
        &self.bytes
    }
}

#[derive(Deserialize)]
struct PublishAnswer<'a> {
    #[serde(borrow)]
    job_id: Cow<'a, str>,
}

#[derive(Deserialize)]
struct PublishBulkAnswer<'a> {
    #[serde(borrow)]
    job_ids: Vec<Cow<'a, str>>,
}

#[derive(Deserialize)]
struct ConsumedJob<'a> {
    #[serde(borrow)]
    job_id: Cow<'a, str>,
    #[serde(borrow)]
    data: Cow<'a, str>,
}

#[derive(Deserialize)]
struct SizeAnswer {
    size: u64,
}

/// Parses the answer to a publish: the id of the job.
pub(crate) fn published(body: &[u8]) -> Result<Cow<'_, str>, LoadgenError> {
    parse::<PublishAnswer>("publish", body).map(|answer| answer.job_id)
}

/// Parses the answer to a bulk publish: the ids of the jobs.
pub(crate) fn published_bulk(body: &[u8]) -> Result<Vec<Cow<'_, str>>, LoadgenError> {
    parse::<PublishBulkAnswer>("bulk publish", body).map(|answer| answer.job_ids)
}

/// Parses the size of a queue.
pub(crate) fn size(body: &[u8]) -> Result<u64, LoadgenError> {
    parse::<SizeAnswer>("size", body).map(|answer| answer.size)
}

/// Parses the answer to a consume. Calls `take` with each job and its id; with `None` for a job that this
/// program did not publish.
pub(crate) fn consumed(
    body: &[u8],
    received_us: u64,
    mut take: impl FnMut(Option<DeliveredJob>, &str),
) -> Result<(), LoadgenError> {
    let mut one = |job: &ConsumedJob| {
        let label = JobLabel::read(&job.data);
        let created = clock::created_ms(&job.job_id);
        let delivered = label.zip(created).map(|(label, created_ms)| DeliveredJob {
            label,
            created_ms,
            received_us,
        });
        take(delivered, &job.job_id);
    };
    if body.first() == Some(&b'[') {
        let jobs: Vec<ConsumedJob> = parse("consume", body)?;
        jobs.iter().for_each(one);
    } else {
        one(&parse::<ConsumedJob>("consume", body)?);
    }
    Ok(())
}

fn parse<'a, T: Deserialize<'a>>(doing: &str, body: &'a [u8]) -> Result<T, LoadgenError> {
    serde_json::from_slice(body).map_err(|_| LoadgenError::unexpected(doing, 200, body))
}
