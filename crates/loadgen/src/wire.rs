//! The requests of the lmstfy wire, prepared once, and its answers, read without copies.

use std::borrow::Cow;
use std::fmt::Display;
use std::io::Write;

use serde::Deserialize;

use crate::Error;
use crate::body::{BODY_BYTES_MIN, Label};
use crate::clock;
use crate::ledger::{Delivered, TTR_SECONDS};
use crate::server::Server;

/// A day longer than the longest delay of any scenario: nothing expires during a run.
const TTL_SECONDS: u32 = 2 * 86_400;

/// Builds requests to one server.
#[derive(Debug, Clone)]
pub(crate) struct Requests {
    host: String,
    token: String,
    namespace: String,
}

impl Requests {
    pub(crate) fn new(server: &Server) -> Self {
        Self {
            host: server.address.to_string(),
            token: server.token.clone(),
            namespace: server.namespace.clone(),
        }
    }

    /// A request without a body.
    pub(crate) fn bare(&self, method: &str, rest: &str) -> Vec<u8> {
        let mut request = Vec::new();
        self.write_bare(&mut request, method, rest);
        request
    }

    /// The same, behind what is there already.
    pub(crate) fn write_bare(&self, out: &mut Vec<u8>, method: &str, rest: impl Display) {
        self.write_head(out, method, rest);
        out.extend_from_slice(b"\r\n");
    }

    /// A request with a body, of which only the length is written.
    fn with_body(&self, out: &mut Vec<u8>, rest: &str, bytes: usize) {
        self.write_head(out, "PUT", rest);
        // Writing to a vector does not fail.
        let _ = write!(out, "Content-Length: {bytes}\r\n\r\n");
    }

    /// What every request begins with.
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

    /// Takes up to `count` jobs of a queue, waiting up to `timeout` seconds for the first.
    pub(crate) fn consume(&self, queue: &str, count: usize, timeout: u32) -> Vec<u8> {
        let rest = format!("{queue}?ttr={TTR_SECONDS}&timeout={timeout}&count={count}");
        self.bare("GET", &rest)
    }

    /// Acknowledges a job; behind what is there already, since acknowledgements may follow each other.
    pub(crate) fn write_ack(&self, out: &mut Vec<u8>, queue: &str, id: &str) {
        self.write_bare(out, "DELETE", format_args!("{queue}/job/{id}"));
    }
}

/// Writes publishes of one job or of several.
#[derive(Debug)]
pub(crate) struct PublishRequest {
    requests: Requests,
    body_bytes: usize,
    bytes: Vec<u8>,
    body: Vec<u8>,
}

impl PublishRequest {
    pub(crate) fn new(requests: Requests, body_bytes: usize) -> Self {
        Self {
            requests,
            body_bytes: body_bytes.max(BODY_BYTES_MIN),
            bytes: Vec::new(),
            body: Vec::new(),
        }
    }

    /// One job.
    pub(crate) fn one(&mut self, queue: &str, label: Label) -> &[u8] {
        self.bytes.clear();
        let rest = format!("{queue}?delay={}&ttl={TTL_SECONDS}&tries=1", label.delay);
        self.requests
            .with_body(&mut self.bytes, &rest, self.body_bytes);
        label.write(&mut self.bytes, self.body_bytes);
        &self.bytes
    }

    /// Jobs with one delay.
    pub(crate) fn bulk(
        &mut self,
        queue: &str,
        delay: u32,
        labels: impl Iterator<Item = Label>,
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
struct Published<'a> {
    #[serde(borrow)]
    job_id: Cow<'a, str>,
}

#[derive(Deserialize)]
struct PublishedBulk<'a> {
    #[serde(borrow)]
    job_ids: Vec<Cow<'a, str>>,
}

#[derive(Deserialize)]
struct ShownJob<'a> {
    #[serde(borrow)]
    job_id: Cow<'a, str>,
    #[serde(borrow)]
    data: Cow<'a, str>,
}

#[derive(Deserialize)]
struct Size {
    size: u64,
}

/// The id of a published job.
pub(crate) fn published(body: &[u8]) -> Result<Cow<'_, str>, Error> {
    parse::<Published>("publish", body).map(|answer| answer.job_id)
}

/// The ids of jobs published together.
pub(crate) fn published_bulk(body: &[u8]) -> Result<Vec<Cow<'_, str>>, Error> {
    parse::<PublishedBulk>("bulk publish", body).map(|answer| answer.job_ids)
}

/// The size of a queue.
pub(crate) fn size(body: &[u8]) -> Result<u64, Error> {
    parse::<Size>("size", body).map(|answer| answer.size)
}

/// Calls `take` with each job of an answer to a consume, and its id; with `None` for a job that is none of
/// this program's.
pub(crate) fn consumed(
    body: &[u8],
    received_us: u64,
    mut take: impl FnMut(Option<Delivered>, &str),
) -> Result<(), Error> {
    let mut one = |job: &ShownJob| {
        let label = Label::read(&job.data);
        let created = clock::created_ms(&job.job_id);
        let delivered = label.zip(created).map(|(label, created_ms)| Delivered {
            label,
            created_ms,
            received_us,
        });
        take(delivered, &job.job_id);
    };
    if body.first() == Some(&b'[') {
        let jobs: Vec<ShownJob> = parse("consume", body)?;
        jobs.iter().for_each(one);
    } else {
        one(&parse::<ShownJob>("consume", body)?);
    }
    Ok(())
}

fn parse<'a, T: Deserialize<'a>>(doing: &str, body: &'a [u8]) -> Result<T, Error> {
    serde_json::from_slice(body).map_err(|_| Error::unexpected(doing, 200, body))
}
