//! Requests about the policy of a queue, on the admin port.

use reqwest::Method;

use super::client::{QueueClient, RequestError};
use crate::answer::Answer;
use crate::daemon::Daemon;

impl QueueClient {
    /// Sends a request about the policy of this queue in the default pool through the admin port of an API.
    ///
    /// # Errors
    /// No answer came.
    ///
    /// # Panics
    /// If `method` is none.
    pub async fn try_policy(
        &self,
        api: &Daemon,
        method: &str,
        body: &str,
        if_match: Option<&str>,
    ) -> Result<Answer, RequestError> {
        let method = Method::from_bytes(method.as_bytes()).expect("a method");
        let mut request = self
            .client
            .request(method, self.policy_url(api))
            .body(body.to_owned());
        if let Some(etag) = if_match {
            request = request.header("If-Match", etag);
        }
        self.exchange(request).await
    }

    /// Changes fields of the policy of this queue.
    ///
    /// # Panics
    /// If the answer is not 200.
    pub async fn patch_policy(&self, api: &Daemon, fields: &str) -> Answer {
        let answer = self.try_policy(api, "PATCH", fields, None).await;
        answer.expect("the admin port answers").expect(200)
    }

    /// The same, of this queue in this pool.
    ///
    /// # Panics
    /// If the answer is not 200.
    pub async fn patch_policy_in(&self, pool: &str, api: &Daemon, fields: &str) -> Answer {
        let url = format!("{}?pool={pool}", self.policy_url(api));
        let request = self.client.patch(url).body(fields.to_owned());
        let answer = self.exchange(request).await;
        answer.expect("the admin port answers").expect(200)
    }

    fn policy_url(&self, api: &Daemon) -> String {
        let path = format!("/v1/{}/queues/{}/policy", self.namespace, self.name);
        format!("{}{path}", api.admin_url())
    }
}
