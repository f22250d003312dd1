//! Requests to the admin port of an API.

use serde_json::Value;

use crate::program::owned_pairs;
use crate::{Answer, Daemon, RawHttp};

impl Daemon {
    /// Sends a request to the admin port.
    ///
    /// # Panics
    /// If the connection ends without an answer.
    pub async fn admin_call(
        &self,
        method: &str,
        path: &str,
        headers: &[(&str, &str)],
        body: &str,
    ) -> Answer {
        let mut http = RawHttp::connect(self.admin()).await;
        let headers = owned_pairs(headers);
        http.request(method, path, &headers, body.as_bytes()).await;
        http.answer().await.expect("an answer")
    }

    /// Sets the quota of a namespace.
    ///
    /// # Panics
    /// If the answer is not 200.
    pub async fn set_quota(&self, namespace: &str, quota: &Value) -> Answer {
        let path = format!("/namespaces/{namespace}");
        let answer = self.admin_call("PUT", &path, &[], &quota.to_string()).await;
        answer.expect(200)
    }
}
