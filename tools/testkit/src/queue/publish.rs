//! Publish requests.

use std::fmt::Write;

use reqwest::Method;

use super::client::{QueueClient, RequestError};
use crate::answer::Answer;

/// A prepared publish request.
#[derive(Debug, Clone)]
#[must_use = "nothing is published before `send` or `id`"]
pub struct PublishBuilder {
    queue: QueueClient,
    path: String,
    query: String,
    headers: Vec<(String, String)>,
    body: Vec<u8>,
}

impl PublishBuilder {
    pub(super) fn new(queue: &QueueClient, path: String, body: Vec<u8>) -> Self {
        Self {
            queue: queue.clone(),
            path,
            query: String::new(),
            headers: Vec::new(),
            body,
        }
    }

    /// Sets the delay in seconds.
    pub fn delay_s(self, seconds: u64) -> Self {
        self.parameter("delay", seconds)
    }

    /// Sets the time to live in seconds; 0 = no expiry.
    pub fn ttl_s(self, seconds: u64) -> Self {
        self.parameter("ttl", seconds)
    }

    /// Sets how often the job may be delivered.
    pub fn tries(self, tries: u64) -> Self {
        self.parameter("tries", tries)
    }

    /// Adds a header, such as an attribute.
    pub fn header(mut self, name: &str, value: &str) -> Self {
        self.headers.push((name.to_owned(), value.to_owned()));
        self
    }

    fn parameter(mut self, name: &str, value: u64) -> Self {
        let _ = write!(self.query, "{name}={value}&");
        self
    }

    /// Publishes.
    ///
    /// # Errors
    /// No answer came; the job may have been published.
    pub async fn send(self) -> Result<Answer, RequestError> {
        let path = format!("{}?{}", self.path, self.query);
        let request = self.queue.request(Method::PUT, &path).body(self.body);
        let request = self.headers.iter().fold(request, |request, (name, value)| {
            request.header(name, value)
        });
        self.queue.exchange(request).await
    }

    /// Publishes and returns the id.
    ///
    /// # Panics
    /// If the answer is not 201.
    pub async fn id(self) -> String {
        let answer = self.send().await.expect("publish is answered").expect(201);
        let json = answer.json();
        json["job_id"].as_str().expect("a job id").to_owned()
    }
}

/// A prepared bulk publish request.
#[derive(Debug, Clone)]
#[must_use = "nothing is published before `send` or `ids`"]
pub struct PublishBulkBuilder(PublishBuilder);

impl PublishBulkBuilder {
    pub(super) fn new(queue: &QueueClient, bodies: &[String]) -> Self {
        let body = format!("[{}]", bodies.join(","));
        let path = format!("{}/bulk", queue.path());
        Self(PublishBuilder::new(queue, path, body.into_bytes()))
    }

    /// Sets the delay in seconds.
    pub fn delay_s(self, seconds: u64) -> Self {
        Self(self.0.delay_s(seconds))
    }

    /// Sets the time to live in seconds; 0 = no expiry.
    pub fn ttl_s(self, seconds: u64) -> Self {
        Self(self.0.ttl_s(seconds))
    }

    /// Sets how often each job may be delivered.
    pub fn tries(self, tries: u64) -> Self {
        Self(self.0.tries(tries))
    }

    /// Publishes.
    ///
    /// # Errors
    /// No answer came; jobs may have been published.
    pub async fn send(self) -> Result<Answer, RequestError> {
        self.0.send().await
    }

    /// Publishes and returns the ids.
    ///
    /// # Panics
    /// If the answer is not 201.
    pub async fn ids(self) -> Vec<String> {
        let answer = self.send().await.expect("bulk is answered").expect(201);
        ids(&answer)
    }
}

/// Parses the ids in the answer to a bulk publish.
fn ids(answer: &Answer) -> Vec<String> {
    let json = answer.json();
    let ids = json["job_ids"].as_array().expect("job ids");
    ids.iter()
        .map(|id| id.as_str().expect("a job id").to_owned())
        .collect()
}

impl QueueClient {
    /// Prepares a publish. [`PublishBuilder::send`] or [`PublishBuilder::id`] sends the request.
    pub fn publish(&self, body: impl Into<Vec<u8>>) -> PublishBuilder {
        PublishBuilder::new(self, self.path(), body.into())
    }

    /// Prepares a republish, which replaces a job by a new one.
    pub fn republish(&self, id: &str, body: impl Into<Vec<u8>>) -> PublishBuilder {
        PublishBuilder::new(self, format!("{}/job/{id}", self.path()), body.into())
    }

    /// Prepares a bulk publish. Each body must be JSON text.
    pub fn publish_bulk(&self, bodies: &[String]) -> PublishBulkBuilder {
        PublishBulkBuilder::new(self, bodies)
    }
}
