//! Consume requests.

use std::fmt::Write;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use reqwest::Method;
use serde_json::Value;

use super::client::{QueueClient, RequestError};
use crate::answer::Answer;

/// A prepared consume request.
#[derive(Debug, Clone)]
#[must_use = "nothing is consumed before `send`, `job` or `jobs`"]
pub struct ConsumeBuilder {
    queue: QueueClient,
    /// With the query.
    path: String,
    body: Vec<u8>,
}

/// A delivered job.
#[derive(Debug, Clone)]
pub struct ReceivedJob {
    pub id: String,
    /// The bytes that were published.
    pub body: Vec<u8>,
    /// The queue it came from.
    pub queue: String,
    /// Tries left after this delivery.
    pub remain_tries: u64,
    /// Seconds until the job expires; 0 = never.
    pub ttl_s: u64,
    /// Milliseconds since it was created.
    pub elapsed_ms: u64,
    /// Attributes, or null.
    pub attributes: Value,
}

impl ReceivedJob {
    fn from_json(json: &Value) -> Self {
        let text = |field: &str| json[field].as_str().expect("a text").to_owned();
        let count = |field: &str| json[field].as_u64().expect("a count");
        Self {
            id: text("job_id"),
            body: STANDARD.decode(text("data")).expect("base 64"),
            queue: text("queue"),
            remain_tries: count("remain_tries"),
            ttl_s: count("ttl"),
            elapsed_ms: count("elapsed_ms"),
            attributes: json["attributes"].clone(),
        }
    }

    /// Parses the deliveries in the answer to a consume; none if it is 404 "no job".
    ///
    /// # Panics
    /// If the answer is neither 200 nor 404.
    #[must_use]
    pub fn parse_all(answer: &Answer) -> Vec<Self> {
        match (answer.status, answer.status == 200) {
            (_, true) => match answer.json() {
                Value::Array(jobs) => jobs.iter().map(Self::from_json).collect(),
                job => vec![Self::from_json(&job)],
            },
            (404, _) => Vec::new(),
            _ => panic!("unexpected answer to a consume: {answer}"),
        }
    }

    /// The body as text.
    #[must_use]
    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }
}

impl ConsumeBuilder {
    pub(super) fn new(queue: &QueueClient, path: String) -> Self {
        Self {
            queue: queue.clone(),
            path: path + "?",
            body: Vec::new(),
        }
    }

    /// Sets the lease time in seconds.
    pub fn ttr_s(self, seconds: u64) -> Self {
        self.parameter("ttr", seconds)
    }

    /// Sets the wait for a job, in seconds.
    pub fn timeout_s(self, seconds: u64) -> Self {
        self.parameter("timeout", seconds)
    }

    /// Sets the largest number of jobs.
    pub fn count(self, count: u64) -> Self {
        self.parameter("count", count)
    }

    /// Sets a request body, which the server ignores.
    pub fn body(mut self, body: impl Into<Vec<u8>>) -> Self {
        self.body = body.into();
        self
    }

    fn parameter(mut self, name: &str, value: u64) -> Self {
        let _ = write!(self.path, "{name}={value}&");
        self
    }

    /// Sends the request.
    ///
    /// # Errors
    /// No answer came; jobs may have been leased.
    pub async fn send(self) -> Result<Answer, RequestError> {
        self.queue.call(Method::GET, &self.path, self.body).await
    }

    /// Sends the request, and returns the job if there is one.
    ///
    /// # Panics
    /// If the answer is neither a job nor "no job".
    pub async fn job(self) -> Option<ReceivedJob> {
        let mut jobs = self.jobs().await;
        assert!(jobs.len() <= 1, "one job was requested: {jobs:?}");
        jobs.pop()
    }

    /// Sends the request, and returns the jobs.
    ///
    /// # Panics
    /// If the answer is neither jobs nor "no job".
    pub async fn jobs(self) -> Vec<ReceivedJob> {
        let answer = self.send().await.expect("consume is answered");
        ReceivedJob::parse_all(&answer)
    }
}

impl QueueClient {
    /// Prepares a consume. [`ConsumeBuilder::send`], [`ConsumeBuilder::job`] or [`ConsumeBuilder::jobs`] sends the
    /// request.
    pub fn consume(&self) -> ConsumeBuilder {
        ConsumeBuilder::new(self, self.path())
    }

    /// Prepares a consume of several queues of this namespace, in this order of priority.
    pub fn consume_from(&self, names: &[&str]) -> ConsumeBuilder {
        ConsumeBuilder::new(self, format!("/api/{}/{}", self.namespace, names.join(",")))
    }
}
