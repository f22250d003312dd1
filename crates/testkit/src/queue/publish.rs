//! Requests that publish.

use std::fmt::Write;

use reqwest::Method;

use super::{NoAnswer, Queue};
use crate::answer::Answer;

/// A job about to be published.
#[derive(Debug, Clone)]
#[must_use = "nothing is published before `send` or `id`"]
pub struct Publish {
    queue: Queue,
    path: String,
    query: String,
    headers: Vec<(String, String)>,
    body: Vec<u8>,
}

impl Publish {
    pub(super) fn new(queue: &Queue, path: String, body: Vec<u8>) -> Self {
        Self {
            queue: queue.clone(),
            path,
            query: String::new(),
            headers: Vec::new(),
            body,
        }
    }

    /// Seconds until the job becomes consumable.
    pub fn delay_s(self, seconds: u64) -> Self {
        self.parameter("delay", seconds)
    }

    /// Seconds until the job disappears; 0 = never.
    pub fn ttl_s(self, seconds: u64) -> Self {
        self.parameter("ttl", seconds)
    }

    /// How often the job may be delivered.
    pub fn tries(self, tries: u64) -> Self {
        self.parameter("tries", tries)
    }

    /// A header, such as an attribute.
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
    pub async fn send(self) -> Result<Answer, NoAnswer> {
        let path = format!("{}?{}", self.path, self.query);
        let request = self.queue.request(Method::PUT, &path).body(self.body);
        let request = self.headers.iter().fold(request, |request, (name, value)| {
            request.header(name, value)
        });
        self.queue.exchange(request).await
    }

    /// Publishes and answers the id.
    ///
    /// # Panics
    /// When the answer is not 201.
    pub async fn id(self) -> String {
        let answer = self.send().await.expect("publish is answered").expect(201);
        let json = answer.json();
        json["job_id"].as_str().expect("a job id").to_owned()
    }
}

/// Several jobs about to be published by one request.
#[derive(Debug, Clone)]
#[must_use = "nothing is published before `send` or `ids`"]
pub struct PublishBulk(Publish);

impl PublishBulk {
    pub(super) fn new(queue: &Queue, bodies: &[String]) -> Self {
        let body = format!("[{}]", bodies.join(","));
        let path = format!("{}/bulk", queue.path());
        Self(Publish::new(queue, path, body.into_bytes()))
    }

    /// Seconds until the jobs become consumable.
    pub fn delay_s(self, seconds: u64) -> Self {
        Self(self.0.delay_s(seconds))
    }

    /// Seconds until the jobs disappear; 0 = never.
    pub fn ttl_s(self, seconds: u64) -> Self {
        Self(self.0.ttl_s(seconds))
    }

    /// How often each job may be delivered.
    pub fn tries(self, tries: u64) -> Self {
        Self(self.0.tries(tries))
    }

    /// Publishes.
    ///
    /// # Errors
    /// No answer came; jobs may have been published.
    pub async fn send(self) -> Result<Answer, NoAnswer> {
        self.0.send().await
    }

    /// Publishes and answers the ids.
    ///
    /// # Panics
    /// When the answer is not 201.
    pub async fn ids(self) -> Vec<String> {
        let answer = self.send().await.expect("bulk is answered").expect(201);
        ids(&answer)
    }
}

/// The ids in the answer to a bulk publish.
fn ids(answer: &Answer) -> Vec<String> {
    let json = answer.json();
    let ids = json["job_ids"].as_array().expect("job ids");
    ids.iter()
        .map(|id| id.as_str().expect("a job id").to_owned())
        .collect()
}
