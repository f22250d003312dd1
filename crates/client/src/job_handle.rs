//! A job, as its producer sees it.

use std::ops::Deref;
use std::time::Duration;

use bytes::Bytes;
use hyper::Method;
use hyper::header::CONTENT_TYPE;
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use tidegate_core::v1::job::{
    CancelAnswer, ChangedJob, JobChange, JobDetails, JobExplanation, PromotedJob,
};
use tidegate_core::v1::problem::ProblemCode;
use tidegate_core::v1::publish::{PublishResult, PublishedJob};
use tidegate_core::v1::values::{JobPath, Timestamp};
use tidegate_core::{Durability, IfRunning, JobId, JobState, QueueName};

use crate::client::Client;
use crate::error::{Error, RepeatSafety};
use crate::transport::{HttpCall, HttpReply};

/// A job of a queue, by its id or its key.
#[derive(Debug, Clone)]
pub struct JobHandle {
    client: Client,
    queue: QueueName,
    path: JobPath,
}

/// The outcome of a cancel.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CancelResult {
    /// The job is deleted. It had this state.
    Cancelled {
        /// The state before.
        was: JobState,
    },
    /// A worker holds the job, and nothing was changed.
    Running,
    /// A worker holds the job, and is notified. If it fails, releases or loses the job, the job is deleted.
    Requested,
    /// A worker held the job, which is deleted. The ack of the worker will have no effect.
    Revoked,
    /// The job was done before, and is retained.
    AlreadyDone,
    /// There is no such job: it is done, was cancelled, or never existed.
    NotFound,
}

impl JobHandle {
    pub(crate) const fn new(client: Client, queue: QueueName, path: JobPath) -> Self {
        Self {
            client,
            queue,
            path,
        }
    }

    /// The name of its queue.
    #[must_use]
    pub fn queue(&self) -> &str {
        self.queue.as_str()
    }

    /// Deletes the job, unless a worker holds it.
    ///
    /// # Errors
    /// The errors of requests. A job that is not there is no error.
    pub async fn cancel(&self) -> Result<CancelResult, Error> {
        self.cancel_even_if_running(IfRunning::Refuse).await
    }

    /// Deletes the job. `if_running` says what happens if a worker holds it.
    ///
    /// # Errors
    /// The errors of requests. A job that is not there is no error.
    pub async fn cancel_even_if_running(
        &self,
        if_running: IfRunning,
    ) -> Result<CancelResult, Error> {
        let answer = match self.cancel_outcome(if_running).await {
            Ok(answer) => answer,
            Err(error) => {
                return match error.code() {
                    Some(ProblemCode::JobRunning) => Ok(CancelResult::Running),
                    Some(ProblemCode::JobNotFound) => Ok(CancelResult::NotFound),
                    _ => Err(error),
                };
            }
        };
        Ok(match answer {
            CancelAnswer::Cancelled { was, .. } => CancelResult::Cancelled { was },
            CancelAnswer::CancelRequested { .. } => CancelResult::Requested,
            CancelAnswer::Revoked { .. } => CancelResult::Revoked,
            CancelAnswer::AlreadyDone { .. } => CancelResult::AlreadyDone,
        })
    }

    /// Deletes the job, and returns the answer of the server with the id of the job. `if_running` says what happens if
    /// a worker holds it.
    ///
    /// # Errors
    /// The errors of requests: `job_not_found`, `job_running`.
    pub async fn cancel_outcome(&self, if_running: IfRunning) -> Result<CancelAnswer, Error> {
        let mut path = self.job_path("");
        path.push(if path.contains('?') { '&' } else { '?' });
        path.push_str("running=");
        path.push_str(if_running.as_str());
        let call = HttpCall::new(Method::DELETE, path);
        self.send(call).await?.json()
    }

    /// Makes a delayed job ready now.
    ///
    /// # Errors
    /// The errors of requests: `job_not_found`, `job_running`, `job_dead`.
    pub async fn promote(&self) -> Result<PromotedJob, Error> {
        let call = HttpCall::new(Method::POST, self.job_path("/promote"));
        self.send(call).await?.json()
    }

    /// Changes when a waiting job is due, its `start_within`, or its priority.
    ///
    /// # Errors
    /// The errors of requests: `job_not_found`, `job_running`, `job_dead`.
    pub async fn change(&self, change: &JobChange) -> Result<ChangedJob, Error> {
        let call = HttpCall::json(Method::PATCH, self.job_path(""), change)?;
        self.send(call).await?.json()
    }

    /// All about the job, except its payload. Jobs by id need the scope `read`.
    ///
    /// # Errors
    /// The errors of requests: `job_not_found`.
    pub async fn show(&self) -> Result<JobDetails, Error> {
        self.send(HttpCall::get(self.job_path(""))).await?.json()
    }

    /// Why it is not delivered now, or not any more. Needs the scope `read`.
    ///
    /// # Errors
    /// The errors of requests: `job_not_found`.
    pub async fn explain(&self) -> Result<JobExplanation, Error> {
        let call = HttpCall::get(self.job_path("/explain"));
        self.send(call).await?.json()
    }

    /// Its payload and the content type. Needs the scope `read`.
    ///
    /// # Errors
    /// The errors of requests: `job_not_found`.
    pub async fn payload(&self) -> Result<(Bytes, String), Error> {
        let reply = self.send(HttpCall::get(self.job_path("/payload"))).await?;
        let content_type = reply
            .header(CONTENT_TYPE.as_str())
            .unwrap_or_default()
            .to_owned();
        Ok((reply.body, content_type))
    }

    /// One request for the result, which waits so long for it.
    pub(crate) async fn fetch_result(&self, wait: Duration) -> Result<HttpReply, Error> {
        let mut path = self.job_path("/result");
        path.push(if path.contains('?') { '&' } else { '?' });
        path.push_str(&format!("wait={}ms", wait.as_millis()));
        self.send(HttpCall::get(path).waiting(wait)).await
    }

    fn job_path(&self, rest: &str) -> String {
        let queue = &self.queue;
        match &self.path {
            JobPath::Id(id) => format!("/queues/{queue}/jobs/{id}{rest}"),
            JobPath::Key(key) => {
                let key = utf8_percent_encode(key.as_str(), NON_ALPHANUMERIC);
                format!(
                    "/queues/{queue}/jobs/{}{rest}?key={key}",
                    JobPath::KEY_IN_QUERY
                )
            }
        }
    }

    async fn send(&self, call: HttpCall) -> Result<HttpReply, Error> {
        let transport = &self.client.transport;
        transport
            .send_repeated(&call, RepeatSafety::Repeatable)
            .await
    }
}

/// A job that was published, or found by its key.
#[derive(Debug, Clone)]
pub struct PublishedHandle {
    /// The id of the job.
    pub id: JobId,
    /// Its key, if it has one.
    pub key: Option<String>,
    /// The outcome of the publish.
    pub outcome: PublishResult,
    /// The state of the job then.
    pub state: JobState,
    /// When it is due next. `None` if it is done, or a worker holds it and it will not run again.
    pub run_at: Option<Timestamp>,
    /// The durability that it has.
    pub durability: Durability,
    /// Whether this is the answer to an earlier publish with the same `Idempotency-Key`.
    pub replayed: bool,
    handle: JobHandle,
}

impl PublishedHandle {
    pub(crate) fn new(client: Client, published: PublishedJob) -> Self {
        let path = JobPath::Id(published.id);
        Self {
            id: published.id,
            key: published.key.map(String::from),
            outcome: published.outcome,
            state: published.state,
            run_at: published.run_at,
            durability: published.durability,
            replayed: published.replayed,
            handle: JobHandle::new(client, published.queue, path),
        }
    }
}

impl Deref for PublishedHandle {
    type Target = JobHandle;

    fn deref(&self) -> &JobHandle {
        &self.handle
    }
}
