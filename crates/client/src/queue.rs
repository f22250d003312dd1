//! A queue as a whole.

use hyper::Method;
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use tidegate_core::limits::PAGE_ITEMS_MAX;
use tidegate_core::v1::Page;
use tidegate_core::v1::job::{ActAnswer, ActBody, JobDetails, JobFilter};
use tidegate_core::v1::problem::ProblemCode;
use tidegate_core::v1::queue::{
    PolicyChange, PurgeAnswer, PurgeBody, PurgeState, QueueView, Respawn, RespawnAnswer,
};
use tidegate_core::v1::values::{CursorText, JobKey, JobPath, PageSize};
use tidegate_core::{Policy, QueueName};

use crate::client::Client;
use crate::cursors::CursorGuard;
use crate::error::{Error, RepeatSafety};
use crate::job_handle::JobHandle;
use crate::transport::{HttpCall, HttpReply};

/// A queue of the namespace. Needs the scope `read` or `admin`.
#[derive(Debug, Clone)]
pub struct QueueHandle {
    client: Client,
    name: QueueName,
}

impl Client {
    /// A queue of the namespace. No request is sent.
    ///
    /// # Errors
    /// The name is not valid.
    pub fn queue(&self, name: &str) -> Result<QueueHandle, Error> {
        let name: QueueName = name.parse()?;
        Ok(QueueHandle::new(self.clone(), name))
    }
}

impl QueueHandle {
    const fn new(client: Client, name: QueueName) -> Self {
        Self { client, name }
    }

    /// The name of the queue.
    #[must_use]
    pub fn name(&self) -> &str {
        self.name.as_str()
    }

    /// The job with this id, or with a key, written as `key:KEY`. No request is sent.
    ///
    /// # Errors
    /// The text is neither.
    pub fn job(&self, id: &str) -> Result<JobHandle, Error> {
        Ok(JobHandle::new(
            self.client.clone(),
            self.name.clone(),
            JobPath::parse(id, None)?,
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
    /// The errors of requests.
    pub async fn stats(&self) -> Result<QueueView, Error> {
        self.send(HttpCall::get(self.path(""))).await?.json()
    }

    /// Its policy.
    ///
    /// # Errors
    /// The errors of requests.
    pub async fn policy(&self) -> Result<Policy, Error> {
        self.send(HttpCall::get(self.path("/policy"))).await?.json()
    }

    /// Changes its policy: fields that the change does not name stay as they are. In effect everywhere within a second.
    /// Returns the new policy.
    ///
    /// # Errors
    /// The errors of requests.
    pub async fn set_policy(&self, change: &PolicyChange) -> Result<Policy, Error> {
        let call = HttpCall::json(Method::PATCH, self.path("/policy"), change)?;
        self.send(call).await?.json()
    }

    /// Deletes all jobs that are ready, or all that are dead. Returns how many.
    ///
    /// # Errors
    /// The errors of requests. After an error some jobs may be deleted.
    pub async fn purge(&self, state: PurgeState) -> Result<u64, Error> {
        let call = HttpCall::json(Method::POST, self.path("/purge"), &PurgeBody { state })?;
        let answer: PurgeAnswer = self.send_once(call).await?.json()?;
        Ok(answer.deleted)
    }

    /// Brings dead jobs back, oldest first, with all their attempts. Returns how many.
    ///
    /// # Errors
    /// The errors of requests. After an error some jobs may be back.
    pub async fn respawn(&self, which: Respawn) -> Result<u64, Error> {
        let call = HttpCall::json(Method::POST, self.path("/respawn"), &which)?;
        let answer: RespawnAnswer = self.send_once(call).await?.json()?;
        Ok(answer.respawned)
    }

    /// The jobs that match a filter, at most `limit`. Takes several requests if they are many, or if few of the jobs of
    /// the queue match. Needs the scope `read`.
    ///
    /// # Errors
    /// The errors of requests.
    pub async fn jobs(&self, filter: &JobFilter, limit: usize) -> Result<Vec<JobDetails>, Error> {
        let (mut jobs, mut cursor) = (Vec::new(), None);
        let mut cursors = CursorGuard::default();
        while jobs.len() < limit {
            let most = (limit - jobs.len()).min(PAGE_ITEMS_MAX.into());
            let most = PageSize::try_from(most as u64)?;
            let page = self.jobs_page(filter, cursor.as_ref(), most).await?;
            jobs.extend(page.items);
            let Some(next) = page.next else { break };
            cursors.check(&next)?;
            cursor = Some(next);
        }
        Ok(jobs)
    }

    /// One page of the jobs that match a filter, which takes one request. `cursor` is `next` of the page before; the
    /// list ends where that is `None`. A page may be empty and not be the last one. Needs the scope `read`.
    ///
    /// # Errors
    /// The errors of requests.
    pub async fn jobs_page(
        &self,
        filter: &JobFilter,
        cursor: Option<&CursorText>,
        most: PageSize,
    ) -> Result<Page<JobDetails>, Error> {
        let filter = query_of(filter)?;
        let cursor = cursor.map(|cursor| format!("&cursor={}", encoded(cursor.as_str())));
        let cursor = cursor.unwrap_or_default();
        let path = self.path(&format!("/jobs?limit={}{filter}{cursor}", most.get()));
        self.send(HttpCall::get(path)).await?.json()
    }

    /// Does something with the jobs that match a filter, one page of them. Repeat it with `cursor` set to `next` of the
    /// answer, after its `wait_ms`, until that is `None`. Needs the scope `admin`.
    ///
    /// # Errors
    /// The errors of requests. After an error some jobs may be changed; a repeated call finds the others. The client
    /// repeats it, too, if the connection breaks: the answer does not count the jobs that were changed before.
    pub async fn act(&self, what: &ActBody) -> Result<ActAnswer, Error> {
        let call = HttpCall::json(Method::POST, self.path("/jobs/act"), what)?;
        self.send(call).await?.json()
    }

    /// Deletes the queue with its policy, if it has no jobs. Returns whether it had none.
    ///
    /// # Errors
    /// The errors of requests.
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

fn encoded(text: &str) -> String {
    utf8_percent_encode(text, NON_ALPHANUMERIC).to_string()
}

/// The fields of a filter as parameters, each with `&` in front.
fn query_of(filter: &JobFilter) -> Result<String, Error> {
    let filter = serde_json::to_value(filter).map_err(Error::Encode)?;
    let fields = filter.as_object().into_iter().flatten();
    let parameters = fields.map(|(name, value)| {
        let text = value
            .as_str()
            .map_or_else(|| value.to_string(), str::to_owned);
        format!("&{name}={}", encoded(&text))
    });
    Ok(parameters.collect())
}
