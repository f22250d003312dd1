//! A client bound to a queue, so that a test reads like a transcript.
//!
//! Every call has two forms: one that hands out what came back, failure included (`try_…`, `send`),
//! and one that panics when it is not what the contract promises.

mod consume;
mod publish;

use std::time::Duration;

use reqwest::{Client, Method};
use serde_json::Value;

pub use consume::{Consume, Delivery};
pub use publish::{Publish, PublishBulk};

use crate::answer::Answer;
use crate::daemon::Daemon;

/// Longer than any wait that a test asks for: a test that hangs fails.
const REQUEST_LIMIT: Duration = Duration::from_secs(90);
const CONNECT_LIMIT: Duration = Duration::from_secs(5);

/// A queue of a namespace, a token that opens it, and the server to ask.
#[derive(Debug, Clone)]
pub struct Queue {
    client: Client,
    base: String,
    namespace: String,
    name: String,
    token: String,
}

/// A request that got no answer.
pub type NoAnswer = reqwest::Error;

impl Queue {
    /// A client of a queue behind the server at `base` (`http://…`).
    ///
    /// # Panics
    /// When no HTTP client can be made.
    #[must_use]
    pub fn new(base: &str, namespace: &str, name: &str, token: &str) -> Self {
        let client = Client::builder()
            .connect_timeout(CONNECT_LIMIT)
            .timeout(REQUEST_LIMIT)
            .build()
            .expect("an HTTP client can be made");
        Self {
            client,
            base: base.to_owned(),
            namespace: namespace.to_owned(),
            name: name.to_owned(),
            token: token.to_owned(),
        }
    }

    /// Has a token made for the namespace in a pool, and uses it.
    ///
    /// # Panics
    /// When the answer is not 201.
    pub async fn with_new_token(api: &Daemon, pool: &str, namespace: &str, name: &str) -> Self {
        let queue = Self::new(&api.url(), namespace, name, "");
        let made = queue.try_new_token(api, pool).await;
        let token = made.expect("the admin port makes a token");
        queue.with_token(&token)
    }

    /// Has a token made for the namespace in a pool, and returns it.
    ///
    /// # Errors
    /// No answer came, or it is not 201.
    pub async fn try_new_token(&self, api: &Daemon, pool: &str) -> Result<String, String> {
        let path = format!("/token/{}?description=test&pool={pool}", self.namespace);
        let url = format!("{}{path}", api.admin_url());
        let answer = self.exchange(self.client.post(url)).await;
        let answer = answer.map_err(|error| error.to_string())?;
        if answer.status != 201 {
            return Err(answer.to_string());
        }
        let json = answer.json();
        Ok(json["token"].as_str().expect("a token").to_owned())
    }

    /// Deletes this queue's token at the admin port of an api.
    ///
    /// # Errors
    /// No answer came.
    pub async fn try_revoke(&self, api: &Daemon) -> Result<Answer, NoAnswer> {
        let url = format!("{}{}", api.admin_url(), self.token_path());
        self.exchange(self.client.delete(url)).await
    }

    /// Limits what this queue's token may do in a window: requests that consume, and that publish; 0 = not limited.
    ///
    /// # Panics
    /// When the answer is not 200 or 201.
    pub async fn limit_token(&self, api: &Daemon, consumes: u64, publishes: u64, window_s: u64) {
        let url = format!("{}{}/limit", api.admin_url(), self.token_path());
        let limit = format!(r#"{{"read":{consumes},"write":{publishes},"interval":{window_s}}}"#);
        let answer = self.exchange(self.client.put(url).body(limit)).await;
        let answer = answer.expect("the admin port answers");
        assert!(matches!(answer.status, 200 | 201), "{answer}");
    }

    fn token_path(&self) -> String {
        format!("/token/{}/{}", self.namespace, self.token)
    }

    /// Says at the admin port of an api how many lanes of the queue take new jobs, and answers what came back.
    ///
    /// # Errors
    /// Nothing came back.
    pub async fn try_set_lanes(&self, api: &Daemon, open: u16) -> Result<Answer, NoAnswer> {
        let path = format!("/lanes/{}/{}", self.namespace, self.name);
        let url = format!("{}{path}", api.admin_url());
        let request = self.client.put(url).body(format!(r#"{{"open":{open}}}"#));
        self.exchange(request).await
    }

    /// Says how many lanes of the queue take new jobs, and answers how many are in use.
    ///
    /// # Panics
    /// When the answer is not 200.
    pub async fn set_lanes(&self, api: &Daemon, open: u16) -> u64 {
        let answer = self.try_set_lanes(api, open).await;
        let said = answer.expect("the admin port answers").expect(200).json();
        assert_eq!(said["open"], open, "{said}");
        said["used"].as_u64().expect("a number of lanes")
    }

    /// The same queue behind another api.
    #[must_use]
    pub fn at(&self, api: &Daemon) -> Self {
        Self {
            base: api.url(),
            ..self.clone()
        }
    }

    /// Another queue of the same namespace.
    #[must_use]
    pub fn sibling(&self, name: &str) -> Self {
        Self {
            name: name.to_owned(),
            ..self.clone()
        }
    }

    /// The same queue with another token.
    #[must_use]
    pub fn with_token(&self, token: &str) -> Self {
        Self {
            token: token.to_owned(),
            ..self.clone()
        }
    }

    /// The same queue over connections of its own.
    #[must_use]
    pub fn apart(&self) -> Self {
        Self::new(&self.base, &self.namespace, &self.name, &self.token)
    }

    /// The namespace.
    #[must_use]
    pub fn namespace(&self) -> &str {
        &self.namespace
    }

    /// The name of the queue.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The token that opens the namespace.
    #[must_use]
    pub fn token(&self) -> &str {
        &self.token
    }

    /// The path of the queue, `/api/…`.
    #[must_use]
    pub fn path(&self) -> String {
        format!("/api/{}/{}", self.namespace, self.name)
    }

    /// Publishes a job; the request goes out with [`Publish::send`] or [`Publish::id`].
    pub fn publish(&self, body: impl Into<Vec<u8>>) -> Publish {
        Publish::new(self, self.path(), body.into())
    }

    /// Replaces a job by a new one.
    pub fn republish(&self, id: &str, body: impl Into<Vec<u8>>) -> Publish {
        Publish::new(self, format!("{}/job/{id}", self.path()), body.into())
    }

    /// Publishes several jobs; each body must be JSON text.
    pub fn publish_bulk(&self, bodies: &[String]) -> PublishBulk {
        PublishBulk::new(self, bodies)
    }

    /// Takes jobs; the request goes out with [`Consume::send`], [`Consume::job`] or [`Consume::jobs`].
    pub fn consume(&self) -> Consume {
        Consume::new(self, self.path())
    }

    /// Takes jobs of several queues of this namespace, in this order of priority.
    pub fn consume_of(&self, names: &[&str]) -> Consume {
        Consume::new(self, format!("/api/{}/{}", self.namespace, names.join(",")))
    }

    /// Deletes a job.
    ///
    /// # Panics
    /// When the answer is not 204.
    pub async fn ack(&self, id: &str) {
        let answer = self.try_ack(id).await;
        answer.expect("ack is answered").expect(204);
    }

    /// Deletes a job.
    ///
    /// # Errors
    /// No answer came.
    pub async fn try_ack(&self, id: &str) -> Result<Answer, NoAnswer> {
        let path = format!("{}/job/{id}", self.path());
        self.call(Method::DELETE, &path, Vec::new()).await
    }

    /// How many jobs are ready.
    ///
    /// # Panics
    /// When the answer is not 200.
    pub async fn size(&self) -> u64 {
        self.count("/size", "size").await
    }

    /// How many jobs are in the dead letter.
    ///
    /// # Panics
    /// When the answer is not 200.
    pub async fn dead_size(&self) -> u64 {
        self.count("/deadletter/size", "size").await
    }

    async fn count(&self, suffix: &str, field: &str) -> u64 {
        let answer = self.raw("GET", &format!("{}{suffix}", self.path())).await;
        answer.expect(200).json()[field]
            .as_u64()
            .expect("a count in the answer")
    }

    /// The dead letter: size and oldest id.
    ///
    /// # Panics
    /// When the answer is not 200.
    pub async fn dead_letter(&self) -> Value {
        let path = format!("{}/deadletter", self.path());
        self.raw("GET", &path).await.expect(200).json()
    }

    /// Gives the oldest dead jobs one more try, and answers how many there were.
    ///
    /// # Panics
    /// When the answer is not 200.
    pub async fn respawn(&self, limit: u64, ttl_s: u64) -> u64 {
        let path = format!("{}/deadletter?limit={limit}&ttl={ttl_s}", self.path());
        let answer = self.raw("PUT", &path).await.expect(200);
        answer.json()["count"].as_u64().expect("a count")
    }

    /// Deletes the oldest dead jobs.
    ///
    /// # Panics
    /// When the answer is not 204.
    pub async fn purge_dead(&self, limit: u64) {
        let path = format!("{}/deadletter?limit={limit}", self.path());
        self.raw("DELETE", &path).await.expect(204);
    }

    /// Deletes the jobs that are ready.
    ///
    /// # Panics
    /// When the answer is not 204.
    pub async fn destroy(&self) {
        self.raw("DELETE", &self.path()).await.expect(204);
    }

    /// Looks at the next job.
    ///
    /// # Panics
    /// When no answer comes.
    pub async fn peek(&self) -> Answer {
        self.raw("GET", &format!("{}/peek", self.path())).await
    }

    /// Looks at one job, in whatever state.
    ///
    /// # Panics
    /// When no answer comes.
    pub async fn peek_job(&self, id: &str) -> Answer {
        self.raw("GET", &format!("{}/job/{id}", self.path())).await
    }

    /// Any request, with this queue's token and without a body.
    ///
    /// # Panics
    /// When no answer comes.
    pub async fn raw(&self, method: &str, path_and_query: &str) -> Answer {
        let answer = self.try_raw(method, path_and_query).await;
        answer.unwrap_or_else(|error| panic!("{method} {path_and_query}: {error:?}"))
    }

    /// Any request, with this queue's token and without a body.
    ///
    /// # Errors
    /// No answer came.
    pub async fn try_raw(&self, method: &str, path_and_query: &str) -> Result<Answer, NoAnswer> {
        let method = Method::from_bytes(method.as_bytes()).expect("a method");
        self.call(method, path_and_query, Vec::new()).await
    }

    async fn call(&self, method: Method, path: &str, body: Vec<u8>) -> Result<Answer, NoAnswer> {
        self.exchange(self.request(method, path).body(body)).await
    }

    fn request(&self, method: Method, path: &str) -> reqwest::RequestBuilder {
        let request = self.client.request(method, format!("{}{path}", self.base));
        request.header("X-Token", &self.token)
    }

    async fn exchange(&self, request: reqwest::RequestBuilder) -> Result<Answer, NoAnswer> {
        let response = request.send().await?;
        let status = response.status().as_u16();
        let headers = response
            .headers()
            .iter()
            .map(|(name, value)| {
                let value = String::from_utf8_lossy(value.as_bytes()).into_owned();
                (name.to_string(), value)
            })
            .collect();
        let body = response.bytes().await?.to_vec();
        Ok(Answer {
            status,
            headers,
            body,
        })
    }
}
