//! Requests of any kind with the connections of a queue client.

use reqwest::Method;
use serde_json::json;

use super::client::{QueueClient, RequestError};
use crate::answer::Answer;
use crate::daemon::Daemon;

impl QueueClient {
    /// Creates an API key with all scopes for the namespace, and returns it.
    ///
    /// # Errors
    /// No answer came, or it is not 201.
    pub async fn try_new_api_key(&self, api: &Daemon) -> Result<String, String> {
        let scopes = ["publish", "consume", "read", "admin"];
        let body = json!({"scopes": scopes, "description": "a test"});
        let url = format!("{}/v1/{}/keys", api.admin_url(), self.namespace);
        let answer = self.exchange(self.client.post(url).body(body.to_string()));
        let answer = answer.await.map_err(|error| error.to_string())?;
        if answer.status != 201 {
            return Err(answer.to_string());
        }
        let json = answer.json();
        Ok(json["secret"].as_str().expect("a secret").to_owned())
    }

    /// Sends a request with these headers only. `path` is complete.
    ///
    /// # Errors
    /// No answer came.
    pub async fn try_send(
        &self,
        method: &str,
        path: &str,
        headers: &[(String, String)],
        body: Vec<u8>,
    ) -> Result<Answer, RequestError> {
        let method = Method::from_bytes(method.as_bytes()).expect("a method");
        let request = self.client.request(method, format!("{}{path}", self.base));
        let with_header = |request: reqwest::RequestBuilder, (name, value): &(String, String)| {
            request.header(name, value)
        };
        let request = headers.iter().fold(request, with_header);
        self.exchange(request.body(body)).await
    }
}
