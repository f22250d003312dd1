//! An HTTP client of one queue.
//!
//! Every call has two forms: the first returns any answer or error (`try_…`, `send`), the second panics unless the
//! answer is as expected.

use std::time::Duration;

use reqwest::{Client, Method};
use serde_json::Value;

use crate::answer::Answer;
use crate::daemon::Daemon;

/// Longer than any requested wait, so that a test that hangs fails.
const REQUEST_LIMIT: Duration = Duration::from_secs(90);
const CONNECT_LIMIT: Duration = Duration::from_secs(5);

/// A queue: namespace, name, token, and the server.
#[derive(Debug, Clone)]
pub struct QueueClient {
    pub(super) client: Client,
    pub(super) base: String,
    pub(super) namespace: String,
    pub(super) name: String,
    pub(super) token: String,
}

/// The error of a request without an answer.
pub type RequestError = reqwest::Error;

impl QueueClient {
    /// Creates a client of a queue on the server at `base` (`http://…`).
    ///
    /// # Panics
    /// If no HTTP client can be created.
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

    /// Creates a token for the namespace in a pool, and returns a client that uses it.
    ///
    /// # Panics
    /// If the answer is not 201.
    pub async fn with_new_token(api: &Daemon, pool: &str, namespace: &str, name: &str) -> Self {
        let queue = Self::new(&api.url(), namespace, name, "");
        let made = queue.try_new_token(api, pool).await;
        let token = made.expect("the admin port makes a token");
        queue.with_token(&token)
    }

    /// Creates a token for the namespace in a pool, and returns it.
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

    /// Deletes this queue's token through the admin port of an API.
    ///
    /// # Errors
    /// No answer came.
    pub async fn try_revoke(&self, api: &Daemon) -> Result<Answer, RequestError> {
        let url = format!("{}{}", api.admin_url(), self.token_path());
        self.exchange(self.client.delete(url)).await
    }

    /// Sets the rate limits of this queue's token: consumes and publishes per window; 0 = unlimited.
    ///
    /// # Panics
    /// If the answer is not 200 or 201.
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

    /// Sets the number of open lanes of the queue through the admin port of an API, and returns the answer.
    ///
    /// # Errors
    /// No answer came.
    pub async fn try_set_lanes(&self, api: &Daemon, open: u16) -> Result<Answer, RequestError> {
        let path = format!("/v1/{}/queues/{}/lanes", self.namespace, self.name);
        let url = format!("{}{path}", api.admin_url());
        let request = self.client.put(url).body(format!(r#"{{"open":{open}}}"#));
        self.exchange(request).await
    }

    /// Sets the number of open lanes of the queue, and returns the number of lanes in use.
    ///
    /// # Panics
    /// If the answer is not 200.
    pub async fn set_lanes(&self, api: &Daemon, open: u16) -> u64 {
        let answer = self.try_set_lanes(api, open).await;
        let said = answer.expect("the admin port answers").expect(200).json();
        assert_eq!(said["open"], open, "{said}");
        said["used"].as_u64().expect("a number of lanes")
    }

    /// Returns the same queue on another API.
    #[must_use]
    pub fn on_api(&self, api: &Daemon) -> Self {
        Self {
            base: api.url(),
            ..self.clone()
        }
    }

    /// Returns another queue of the same namespace.
    #[must_use]
    pub fn sibling(&self, name: &str) -> Self {
        Self {
            name: name.to_owned(),
            ..self.clone()
        }
    }

    /// Returns the same queue with another token.
    #[must_use]
    pub fn with_token(&self, token: &str) -> Self {
        Self {
            token: token.to_owned(),
            ..self.clone()
        }
    }

    /// Returns the same queue over separate connections.
    #[must_use]
    pub fn with_separate_connections(&self) -> Self {
        Self::new(&self.base, &self.namespace, &self.name, &self.token)
    }

    #[must_use]
    pub fn namespace(&self) -> &str {
        &self.namespace
    }

    /// The name of the queue.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The token of the namespace.
    #[must_use]
    pub fn token(&self) -> &str {
        &self.token
    }

    /// The path of the queue, `/api/…`.
    #[must_use]
    pub fn path(&self) -> String {
        format!("/api/{}/{}", self.namespace, self.name)
    }

    /// Deletes a job.
    ///
    /// # Panics
    /// If the answer is not 204.
    pub async fn ack(&self, id: &str) {
        let answer = self.try_ack(id).await;
        answer.expect("ack is answered").expect(204);
    }

    /// Deletes a job.
    ///
    /// # Errors
    /// No answer came.
    pub async fn try_ack(&self, id: &str) -> Result<Answer, RequestError> {
        let path = format!("{}/job/{id}", self.path());
        self.call(Method::DELETE, &path, Vec::new()).await
    }

    /// Returns the number of ready jobs.
    ///
    /// # Panics
    /// If the answer is not 200.
    pub async fn size(&self) -> u64 {
        self.count("/size", "size").await
    }

    /// Returns the number of dead jobs.
    ///
    /// # Panics
    /// If the answer is not 200.
    pub async fn dead_size(&self) -> u64 {
        self.count("/deadletter/size", "size").await
    }

    async fn count(&self, suffix: &str, field: &str) -> u64 {
        let answer = self.raw("GET", &format!("{}{suffix}", self.path())).await;
        answer.expect(200).json()[field]
            .as_u64()
            .expect("a count in the answer")
    }

    /// Returns the state of the dead letter: size and oldest id, as JSON.
    ///
    /// # Panics
    /// If the answer is not 200.
    pub async fn dead_letter(&self) -> Value {
        let path = format!("{}/deadletter", self.path());
        self.raw("GET", &path).await.expect(200).json()
    }

    /// Respawns up to `limit` of the oldest dead jobs, each with one more try. Returns how many there were.
    ///
    /// # Panics
    /// If the answer is not 200.
    pub async fn respawn(&self, limit: u64, ttl_s: u64) -> u64 {
        let path = format!("{}/deadletter?limit={limit}&ttl={ttl_s}", self.path());
        let answer = self.raw("PUT", &path).await.expect(200);
        answer.json()["count"].as_u64().expect("a count")
    }

    /// Deletes up to `limit` of the oldest dead jobs.
    ///
    /// # Panics
    /// If the answer is not 204.
    pub async fn purge_dead(&self, limit: u64) {
        let path = format!("{}/deadletter?limit={limit}", self.path());
        self.raw("DELETE", &path).await.expect(204);
    }

    /// Deletes all ready jobs.
    ///
    /// # Panics
    /// If the answer is not 204.
    pub async fn destroy(&self) {
        self.raw("DELETE", &self.path()).await.expect(204);
    }

    /// Peeks at the next job.
    ///
    /// # Panics
    /// If no answer comes.
    pub async fn peek(&self) -> Answer {
        self.raw("GET", &format!("{}/peek", self.path())).await
    }

    /// Peeks at a job by its id, in any state.
    ///
    /// # Panics
    /// If no answer comes.
    pub async fn peek_job(&self, id: &str) -> Answer {
        self.raw("GET", &format!("{}/job/{id}", self.path())).await
    }

    /// Any request, with this queue's token and without a body.
    ///
    /// # Panics
    /// If no answer comes.
    pub async fn raw(&self, method: &str, path_and_query: &str) -> Answer {
        let answer = self.try_raw(method, path_and_query).await;
        answer.unwrap_or_else(|error| panic!("{method} {path_and_query}: {error:?}"))
    }

    /// Any request, with this queue's token and without a body.
    ///
    /// # Errors
    /// No answer came.
    pub async fn try_raw(
        &self,
        method: &str,
        path_and_query: &str,
    ) -> Result<Answer, RequestError> {
        let method = Method::from_bytes(method.as_bytes()).expect("a method");
        self.call(method, path_and_query, Vec::new()).await
    }

    pub(super) async fn call(
        &self,
        method: Method,
        path: &str,
        body: Vec<u8>,
    ) -> Result<Answer, RequestError> {
        self.exchange(self.request(method, path).body(body)).await
    }

    pub(super) fn request(&self, method: Method, path: &str) -> reqwest::RequestBuilder {
        let request = self.client.request(method, format!("{}{path}", self.base));
        request.header("X-Token", &self.token)
    }

    pub(super) async fn exchange(
        &self,
        request: reqwest::RequestBuilder,
    ) -> Result<Answer, RequestError> {
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
