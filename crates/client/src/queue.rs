//! A queue as a whole.

use hyper::Method;
use tidegate_api_types::problem::ProblemCode;
use tidegate_api_types::queue::{
    PolicyBody, PolicyDetails, PurgeAnswer, PurgeBody, PurgeState, QueueView, RespawnAnswer,
    RespawnBody,
};
use tidegate_api_types::values::{JobIdText, JobKey, JobPath, QueueNameText};

use crate::client::Client;
use crate::error::{Error, RepeatSafety};
use crate::job_handle::JobHandle;
use crate::transport::{HttpCall, HttpReply};

/// A queue of the namespace. Needs the scope `read` or `admin`.
#[derive(Debug, Clone)]
pub struct QueueHandle {
    client: Client,
    name: QueueNameText,
}

impl Client {
    /// A queue of the namespace. No request is sent.
    ///
    /// # Errors
    /// The name is not valid.
    pub fn queue(&self, name: &str) -> Result<QueueHandle, Error> {
        let name: QueueNameText = name.parse()?;
        Ok(QueueHandle::new(self.clone(), name))
    }
}

impl QueueHandle {
    const fn new(client: Client, name: QueueNameText) -> Self {
        Self { client, name }
    }

    /// The name of the queue.
    #[must_use]
    pub fn name(&self) -> &str {
        self.name.as_str()
    }

    /// The job with this id. No request is sent.
    ///
    /// # Errors
    /// The id is not valid.
    pub fn job(&self, id: &str) -> Result<JobHandle, Error> {
        let id: JobIdText = id.parse()?;
        Ok(JobHandle::new(
            self.client.clone(),
            self.name.clone(),
            JobPath::Id(id),
        ))
    }

    /// The job that has this key. No request is sent.
    ///
    /// # Errors
    /// The key is not valid.
    pub fn job_with_key(&self, key: &str) -> Result<JobHandle, Error> {
        let key: JobKey = key.parse()?;
        Ok(JobHandle::new(
            self.client.clone(),
            self.name.clone(),
            JobPath::Key(key),
        ))
    }

    /// How many jobs the queue has, by state, and whether it is paused or closed.
    ///
    /// # Errors
    /// Those of requests.
    pub async fn stats(&self) -> Result<QueueView, Error> {
        self.send(HttpCall::get(self.path(""))).await?.json()
    }

    /// Its policy.
    ///
    /// # Errors
    /// Those of requests.
    pub async fn policy(&self) -> Result<PolicyDetails, Error> {
        self.send(HttpCall::get(self.path("/policy"))).await?.json()
    }

    /// Changes its policy: what the change does not name stays as it is. In effect everywhere within a second. Returns
    /// the new policy.
    ///
    /// # Errors
    /// Those of requests.
    pub async fn set_policy(&self, change: &PolicyBody) -> Result<PolicyDetails, Error> {
        let call = HttpCall::json(Method::PATCH, self.path("/policy"), change)?;
        self.send(call).await?.json()
    }

    /// Deletes all jobs that are ready, or all that are dead. Returns how many.
    ///
    /// # Errors
    /// Those of requests. After an error some jobs may be deleted.
    pub async fn purge(&self, state: PurgeState) -> Result<u64, Error> {
        let call = HttpCall::json(Method::POST, self.path("/purge"), &PurgeBody { state })?;
        let answer: PurgeAnswer = self.send_once(call).await?.json()?;
        Ok(answer.deleted)
    }

    /// Brings dead jobs back, oldest first, with all their attempts. Returns how many.
    ///
    /// # Errors
    /// Those of requests. After an error some jobs may be back.
    pub async fn respawn(&self, which: RespawnBody) -> Result<u64, Error> {
        let call = HttpCall::json(Method::POST, self.path("/respawn"), &which)?;
        let answer: RespawnAnswer = self.send_once(call).await?.json()?;
        Ok(answer.respawned)
    }

    /// Deletes the queue with its policy, if it has no jobs. Returns whether it had none.
    ///
    /// # Errors
    /// Those of requests.
    pub async fn delete_if_empty(&self) -> Result<bool, Error> {
        let deleting = self
            .send(HttpCall::new(Method::DELETE, self.path("")))
            .await;
        match deleting {
            Ok(_) => Ok(true),
            Err(error) if error.code() == Some(ProblemCode::QueueNotEmpty) => Ok(false),
            Err(error) => Err(error),
        }
    }

    fn path(&self, rest: &str) -> String {
        format!("/queues/{}{rest}", self.name)
    }

    async fn send(&self, call: HttpCall) -> Result<HttpReply, Error> {
        let transport = &self.client.transport;
        transport
            .send_repeated(&call, RepeatSafety::Repeatable)
            .await
    }

    /// The number in the answer to a repetition would be wrong.
    async fn send_once(&self, call: HttpCall) -> Result<HttpReply, Error> {
        let transport = &self.client.transport;
        transport
            .send_repeated(&call, RepeatSafety::OnlyIfNotApplied)
            .await
    }
}
