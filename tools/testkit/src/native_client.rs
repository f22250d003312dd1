//! Requests to the native API, and their answers.

use std::net::SocketAddr;

use serde_json::{Value, json};

use crate::api_document::check_native_answer;
use crate::program::owned_pairs;
use crate::{Answer, Daemon, RawHttp};

/// A client of the native API with an API key for one namespace.
#[derive(Debug, Clone)]
pub struct NativeClient {
    address: SocketAddr,
    namespace: String,
    key: String,
}

impl NativeClient {
    /// A client with a new API key that has all scopes.
    ///
    /// # Panics
    /// If the key is not created.
    pub async fn new(api: &Daemon, namespace: &str) -> Self {
        let scopes = ["publish", "consume", "read", "admin"];
        Self::with_scopes(api, namespace, &scopes).await
    }

    /// A client with a new API key that has these scopes.
    ///
    /// # Panics
    /// If the key is not created.
    pub async fn with_scopes(api: &Daemon, namespace: &str, scopes: &[&str]) -> Self {
        let operator = Self::operator(api, namespace);
        Self::with_key(api, namespace, &operator.new_key(scopes).await)
    }

    /// An operator at the admin port; `*` stands for all namespaces.
    #[must_use]
    pub fn operator(api: &Daemon, namespace: &str) -> Self {
        Self {
            address: api.admin(),
            namespace: namespace.to_owned(),
            key: String::new(),
        }
    }

    /// Creates an API key for the namespaces of this client, and returns its secret.
    ///
    /// # Panics
    /// If the key is not created.
    pub async fn new_key(&self, scopes: &[&str]) -> String {
        let body = json!({"scopes": scopes, "description": "a test"});
        let created = self.call("POST", "/keys", &body).await.expect(201).json();
        created["secret"].as_str().expect("a secret").to_owned()
    }

    /// A client with this credential: an API key, or a token of the lmstfy wire.
    #[must_use]
    pub fn with_key(api: &Daemon, namespace: &str, key: &str) -> Self {
        Self {
            address: api.listen(),
            namespace: namespace.to_owned(),
            key: key.to_owned(),
        }
    }

    /// The credential that requests have.
    #[must_use]
    pub fn key(&self) -> &str {
        &self.key
    }

    /// Sends a request; `path` follows the namespace.
    ///
    /// # Panics
    /// If the connection ends without an answer, or the OpenAPI document does not allow the answer.
    pub async fn send(
        &self,
        method: &str,
        path: &str,
        headers: &[(&str, &str)],
        body: &[u8],
    ) -> Answer {
        let mut http = RawHttp::connect(self.address).await;
        let credential = format!("Bearer {}", self.key);
        let mut all = vec![("Authorization".to_owned(), credential)];
        all.extend(owned_pairs(headers));
        let path = format!("/v1/{}{path}", self.namespace);
        http.request(method, &path, &all, body).await;
        let answer = http.answer().await.expect("an answer");
        check_native_answer(method, &path, &answer);
        answer
    }

    /// Sends a request with a body of JSON.
    pub async fn call(&self, method: &str, path: &str, body: &Value) -> Answer {
        let kind = [("Content-Type", "application/json")];
        let body = body.to_string();
        self.send(method, path, &kind, body.as_bytes()).await
    }

    /// Sends a request without a body.
    pub async fn get(&self, path: &str) -> Answer {
        self.send("GET", path, &[], b"").await
    }

    /// Publishes a text; `options` is the query.
    pub async fn publish(&self, queue: &str, options: &str, payload: &str) -> Answer {
        let path = format!("/queues/{queue}/jobs?{options}");
        let kind = [("Content-Type", "text/plain")];
        self.send("POST", &path, &kind, payload.as_bytes()).await
    }

    /// Publishes a text with these options, of which `wait` is how long the answer waits for the result of the job.
    pub async fn publish_and_wait(&self, queue: &str, options: &str, payload: &str) -> Answer {
        let path = format!("/queues/{queue}/jobs/call?{options}");
        let kind = [("Content-Type", "text/plain")];
        self.send("POST", &path, &kind, payload.as_bytes()).await
    }

    /// Reserves up to `max_jobs` jobs of a queue, and waits for them for 10 s.
    ///
    /// # Panics
    /// If the answer is no success.
    pub async fn reserve(&self, queue: &str, max_jobs: u16) -> Vec<Value> {
        let body = json!({"queues": [queue], "max_jobs": max_jobs, "wait": "10s"});
        let answer = self.call("POST", "/reserve", &body).await.expect(200);
        let jobs = answer.json()["jobs"].clone();
        serde_json::from_value(jobs).expect("a list of jobs")
    }

    /// Sends `ack`, `fail`, `touch` or `release` with this body, and returns the outcomes.
    ///
    /// # Panics
    /// If the answer is no success.
    pub async fn settle(&self, verb: &str, body: &Value) -> Vec<Value> {
        let answer = self.call("POST", &format!("/{verb}"), body).await;
        let results = answer.expect(200).json()["results"].clone();
        serde_json::from_value(results).expect("a list of outcomes")
    }
}
