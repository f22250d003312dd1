//! Results of jobs: synchronous calls.

use std::time::{Duration, Instant};

use bytes::Bytes;
use hyper::StatusCode;
use hyper::header::CONTENT_TYPE;
use serde::de::DeserializeOwned;
use tidegate_core::v1::problem::ProblemCode;

use crate::error::Error;
use crate::job_handle::{JobHandle, PublishedHandle};
use crate::publish::Publish;
use crate::task::Task;
use crate::transport::HttpReply;

/// Marks an answer to a publish that is the result of the job.
const JOB_ID: &str = "tidegate-job-id";
/// The longest wait of one request. Proxies close connections that are silent for longer.
const REQUEST_WAIT: Duration = Duration::from_secs(20);

/// How much later than its wait a call may end: the server answers at the end of the wait.
const ANSWER_MARGIN: Duration = Duration::from_secs(2);

/// Longer waits are so long: a year.
const WAIT_MAX: Duration = Duration::from_secs(365 * 24 * 3600);

/// Why a call has no result.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CallError {
    /// The job was not done in time. It stays in its queue.
    #[error("no result in time; the job continues")]
    TimedOut {
        /// The job: ask for its result later, or cancel it.
        job: Box<PublishedHandle>,
    },
    /// The job is in the dead letter.
    #[error("the job is dead: {detail}")]
    Dead {
        /// The id of the job, if the server named it.
        id: Option<String>,
        /// The details from the server.
        detail: String,
    },
    /// The job was cancelled, or is done and its result is not kept any longer.
    #[error("the job was cancelled, or its result is not kept any longer")]
    Cancelled,
    /// The job is stored, and a request for its result failed. It stays in its queue.
    #[error("the job is stored, but the wait for its result failed: {error}")]
    WaitFailed {
        /// The job: ask for its result later, or cancel it.
        job: Box<PublishedHandle>,
        /// Why the request failed.
        #[source]
        error: Error,
    },
    /// The request failed.
    #[error(transparent)]
    Request(#[from] Error),
}

/// The result of a job.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct JobResult {
    /// The bytes; empty if the job is done without a result.
    pub bytes: Bytes,
    /// Their content type. `None` if the job is done without a result.
    pub content_type: Option<String>,
}

impl JobResult {
    fn of(reply: HttpReply) -> Self {
        let content_type = match reply.status {
            StatusCode::NO_CONTENT => None,
            _ => reply.header(CONTENT_TYPE.as_str()).map(str::to_owned),
        };
        Self {
            bytes: reply.body,
            content_type,
        }
    }

    /// Reads the result as JSON. No result is `null`.
    ///
    /// # Errors
    /// It is not JSON of this type.
    pub fn json<R: DeserializeOwned>(&self) -> Result<R, Error> {
        let bytes: &[u8] = match self.content_type {
            None => b"null",
            Some(_) => &self.bytes,
        };
        serde_json::from_slice(bytes).map_err(|error| Error::decode("the result of the job", error))
    }
}

impl CallError {
    fn of(error: Error) -> Self {
        match error.problem() {
            Some(problem) if problem.code == ProblemCode::JobDead => Self::Dead {
                id: problem.job.clone(),
                detail: problem.detail.clone(),
            },
            Some(problem) if problem.code == ProblemCode::JobNotFound => Self::Cancelled,
            _ => Self::Request(error),
        }
    }
}

/// Ends a request, and its repetitions, a little after its time: a server that is stopped gives no answer.
async fn answered_in(
    wait: Duration,
    request: impl Future<Output = Result<HttpReply, Error>>,
) -> Result<HttpReply, Error> {
    let limit = wait.saturating_add(ANSWER_MARGIN);
    let answered = tokio::time::timeout(limit, request).await;
    answered.unwrap_or(Err(Error::NoAnswer(limit)))
}

impl JobHandle {
    /// Waits up to so long for the job to be done, and returns its result; `None` if it is not done in time.
    ///
    /// A result is kept as long as the job is retained. Needs the scope `read`.
    ///
    /// # Errors
    /// The job is dead or cancelled, or its result is not kept any longer; or the request failed.
    pub async fn result(&self, wait: Duration) -> Result<Option<JobResult>, CallError> {
        let wait = wait.min(WAIT_MAX);
        let deadline = Instant::now() + wait;
        loop {
            let left = deadline.saturating_duration_since(Instant::now());
            let fetching = self.fetch_result(left.min(REQUEST_WAIT));
            let reply = answered_in(left, fetching).await.map_err(CallError::of)?;
            if reply.status != StatusCode::ACCEPTED {
                return Ok(Some(JobResult::of(reply)));
            }
            if Instant::now() >= deadline {
                return Ok(None);
            }
        }
    }
}

impl<T: Task> Publish<T> {
    /// Publishes the task, waits up to so long until a worker has done it, and returns its reply.
    ///
    /// If the server gives no answer, the call ends with an error 2 s after the wait at the latest; the job may be
    /// stored.
    ///
    /// A job with a key that exists already is waited for. Needs the scope `read`. A wait of more than 20 s takes
    /// several requests; the server keeps the result for at least 10 s meanwhile.
    ///
    /// # Errors
    /// [`CallError::TimedOut`] if it is not done in time: then the job stays in the queue. See [`CallError`] for
    /// others.
    pub async fn call(self, wait: Duration) -> Result<T::Reply, CallError> {
        let result = self.call_raw(wait).await?;
        Ok(result.json()?)
    }
}

impl<T> Publish<T> {
    /// Like `call`, for any task: returns the bytes of the result.
    ///
    /// # Errors
    /// The errors of `call`.
    pub async fn call_raw(self, wait: Duration) -> Result<JobResult, CallError> {
        let wait = wait.min(WAIT_MAX);
        let deadline = Instant::now() + wait;
        let (client, call) = self.into_call(Some(wait.min(REQUEST_WAIT)))?;
        let sending = client.transport.send_repeated(&call.http, call.safety);
        let reply = answered_in(wait, sending).await.map_err(CallError::of)?;
        let is_result =
            reply.headers.contains_key(JOB_ID) || reply.status == StatusCode::NO_CONTENT;
        if is_result {
            return Ok(JobResult::of(reply));
        }
        let job = PublishedHandle::new(client, reply.json()?);
        let left = deadline.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(CallError::TimedOut { job: Box::new(job) });
        }
        match job.result(left).await {
            Ok(Some(result)) => Ok(result),
            Ok(None) => Err(CallError::TimedOut { job: Box::new(job) }),
            Err(CallError::Request(error)) => Err(CallError::WaitFailed {
                job: Box::new(job),
                error,
            }),
            Err(other) => Err(other),
        }
    }
}
