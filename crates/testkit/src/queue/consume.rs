//! Requests that consume.

use std::fmt::Write;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use reqwest::Method;
use serde_json::Value;

use super::{NoAnswer, Queue};
use crate::answer::Answer;

/// A wish for jobs.
#[derive(Debug, Clone)]
#[must_use = "nothing is consumed before `send`, `job` or `jobs`"]
pub struct Consume {
    queue: Queue,
    path: String,
    query: String,
    body: Vec<u8>,
}

/// A job in the hands of a consumer.
#[derive(Debug, Clone)]
pub struct Delivery {
    /// The id.
    pub id: String,
    /// The bytes that were published.
    pub body: Vec<u8>,
    /// The queue it came from.
    pub queue: String,
    /// Deliveries left after this one.
    pub remain_tries: u64,
    /// Seconds until the job disappears; 0 = never.
    pub ttl_s: u64,
    /// Milliseconds since it was published.
    pub elapsed_ms: u64,
    /// Attributes, or null.
    pub attributes: Value,
}

impl Delivery {
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

    /// The deliveries in the answer to a consume; none when it was "no job".
    ///
    /// # Panics
    /// When the answer is neither 200 nor 404.
    #[must_use]
    pub fn all(answer: &Answer) -> Vec<Self> {
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

impl Consume {
    pub(super) fn new(queue: &Queue, path: String) -> Self {
        Self {
            queue: queue.clone(),
            path,
            query: String::new(),
            body: Vec::new(),
        }
    }

    /// Seconds until the job comes back, unless it is acked.
    pub fn ttr_s(self, seconds: u64) -> Self {
        self.parameter("ttr", seconds)
    }

    /// Seconds to wait for a job.
    pub fn timeout_s(self, seconds: u64) -> Self {
        self.parameter("timeout", seconds)
    }

    /// The most jobs to take.
    pub fn count(self, count: u64) -> Self {
        self.parameter("count", count)
    }

    /// A body, which a GET need not have.
    pub fn body(mut self, body: impl Into<Vec<u8>>) -> Self {
        self.body = body.into();
        self
    }

    fn parameter(mut self, name: &str, value: u64) -> Self {
        let _ = write!(self.query, "{name}={value}&");
        self
    }

    /// Asks for jobs.
    ///
    /// # Errors
    /// No answer came; jobs may have been leased.
    pub async fn send(self) -> Result<Answer, NoAnswer> {
        let path = format!("{}?{}", self.path, self.query);
        self.queue.call(Method::GET, &path, self.body).await
    }

    /// Asks for one job.
    ///
    /// # Panics
    /// When the answer is neither a job nor "no job".
    pub async fn job(self) -> Option<Delivery> {
        let mut jobs = self.jobs().await;
        assert!(jobs.len() <= 1, "one job was asked for: {jobs:?}");
        jobs.pop()
    }

    /// Asks for jobs.
    ///
    /// # Panics
    /// When the answer is neither jobs nor "no job".
    pub async fn jobs(self) -> Vec<Delivery> {
        let answer = self.send().await.expect("consume is answered");
        Delivery::all(&answer)
    }
}
