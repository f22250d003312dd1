//! API keys.

use hyper::Method;
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use tidegate_core::v1::keys::{CreateKeyBody, CreatedKey, RevokedKey};

use super::Client;
use crate::error::{Error, RepeatSafety};
use crate::transport::HttpCall;

impl Client {
    /// Creates an API key. It cannot allow more than the key of the client. Needs the scope `admin`. Not repeated after
    /// an answer that was lost: the key may exist then, and its secret is unknown.
    ///
    /// # Errors
    /// The errors of requests.
    pub async fn create_key(&self, key: &CreateKeyBody) -> Result<CreatedKey, Error> {
        let call = HttpCall::json(Method::POST, "/keys", key)?;
        let safety = RepeatSafety::OnlyIfNotApplied;
        self.transport.send_repeated(&call, safety).await?.json()
    }

    /// Revokes the API key with this id. Servers reject it within a second. Needs the scope `admin`.
    ///
    /// # Errors
    /// The errors of requests; `key_not_found` if there is none, also after a repetition of a request whose answer was
    /// lost.
    pub async fn revoke_key(&self, id: &str) -> Result<RevokedKey, Error> {
        let id = utf8_percent_encode(id, NON_ALPHANUMERIC);
        let call = HttpCall::new(Method::DELETE, format!("/keys/{id}"));
        let safety = RepeatSafety::Repeatable;
        self.transport.send_repeated(&call, safety).await?.json()
    }
}
