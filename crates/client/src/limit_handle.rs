//! A limit that queues of the namespace share.

use hyper::Method;
use tidegate_core::Rate;
use tidegate_core::v1::queue::LimitDetails;
use tidegate_core::v1::rate::RateChange;
use tidegate_core::v1::values::LimitNameText;
use tidegate_core::v1::{DeleteAnswer, Precondition};

use crate::client::Client;
use crate::condition::{add_condition, repeat_safety};
use crate::error::{Error, RepeatSafety};
use crate::transport::{HttpCall, HttpReply};

/// A limit of the namespace: how many jobs the queues whose policies name it deliver in a time, together. Needs the
/// scope `read`, and `admin` for changes.
#[derive(Debug, Clone)]
pub struct LimitHandle {
    client: Client,
    name: LimitNameText,
}

impl Client {
    /// The limit with this name. No request is sent.
    ///
    /// # Errors
    /// The name is not valid.
    pub fn limit(&self, name: &str) -> Result<LimitHandle, Error> {
        Ok(LimitHandle {
            client: self.clone(),
            name: name.parse()?,
        })
    }
}

impl LimitHandle {
    /// The name of the limit.
    #[must_use]
    pub fn name(&self) -> &str {
        self.name.as_str()
    }

    /// Its rate.
    ///
    /// # Errors
    /// The errors of requests: `limit_not_found`.
    pub async fn show(&self) -> Result<LimitDetails, Error> {
        let call = HttpCall::get(self.path());
        self.send(&call, RepeatSafety::Repeatable).await?.json()
    }

    /// Creates the limit, or replaces it. In effect everywhere within a second.
    ///
    /// # Errors
    /// The errors of requests.
    pub async fn set(&self, rate: Rate) -> Result<LimitDetails, Error> {
        self.set_if(Precondition::None, rate).await
    }

    /// The same if the limit is as the condition requires.
    ///
    /// # Errors
    /// The errors of requests; `version_mismatch` if it is not.
    pub async fn set_if(
        &self,
        condition: Precondition<&str>,
        rate: Rate,
    ) -> Result<LimitDetails, Error> {
        let mut call = HttpCall::json(Method::PUT, self.path(), &RateChange::from(rate))?;
        add_condition(&mut call, condition)?;
        self.send(&call, repeat_safety(condition)).await?.json()
    }

    /// Deletes the limit.
    ///
    /// # Errors
    /// The errors of requests; `limit_in_use` if the policy of a queue names it; `limit_not_found` if there is none,
    /// also after a repetition of a request whose answer was lost.
    pub async fn delete(&self) -> Result<DeleteAnswer, Error> {
        let call = HttpCall::new(Method::DELETE, self.path());
        self.send(&call, RepeatSafety::Repeatable).await?.json()
    }

    fn path(&self) -> String {
        format!("/limits/{}", self.name)
    }

    async fn send(&self, call: &HttpCall, safety: RepeatSafety) -> Result<HttpReply, Error> {
        self.client.transport.send_repeated(call, safety).await
    }
}
