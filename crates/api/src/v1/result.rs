//! `GET /v1/NAMESPACE/queues/QUEUE/jobs/JOB/result`, and the wait of `jobs/call`: how a job has ended.

use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use axum::http::{HeaderValue, Response, StatusCode};
use tidegate_core::v1::job::{ResultQuery, UnfinishedJob};
use tidegate_core::v1::problem::ProblemCode;
use tidegate_core::v1::values::DurationMs;
use tidegate_core::{Job, JobId, QueueKey};
use tidegate_engine::{EngineError, Pool, WaitPermit};
use tidegate_store::{JobEnd, JobReference};
use tokio::time::Instant;

use super::answer::{bytes_answer, json_answer};
use super::error::NativeError;
use super::job_details::has_result;
use super::native_request::NativeRequest;

/// The header of an answer that is the result of a job.
const JOB_ID: &str = "tidegate-job-id";

pub(super) async fn result(request: NativeRequest) -> Result<Response<Body>, NativeError> {
    let queue = request.queue()?;
    let query: ResultQuery = request.read_query()?;
    let job = request.job(&queue, query.key.as_ref().map(|key| key.as_str()))?;
    let wait = EndWait::take_room(&request, queue, query.wait.unwrap_or_default())?;
    match wait.end_of(job).await? {
        JobEnd::NotEnded { id, state } => {
            let unfinished = UnfinishedJob { id, state };
            Ok(json_answer(StatusCode::ACCEPTED, &unfinished))
        }
        JobEnd::Done(job) => answer_of(&job),
        JobEnd::Dead(id) => Err(dead(id)),
        JobEnd::AlreadyGone => Err(gone()),
    }
}

/// Why a wait has failed.
enum EndWaitError {
    /// The credential of the client is not valid any more.
    Revoked,
    /// Redis gave no answer.
    Failed(EngineError),
}

impl From<EngineError> for EndWaitError {
    fn from(error: EngineError) -> Self {
        Self::Failed(error)
    }
}

impl From<EndWaitError> for NativeError {
    fn from(error: EndWaitError) -> Self {
        match error {
            EndWaitError::Revoked => Self::of(ProblemCode::KeyInvalid),
            EndWaitError::Failed(error) => error.into(),
        }
    }
}

/// A client that waits for the end of a job.
pub(super) struct EndWait {
    pool: Arc<Pool>,
    queue: QueueKey,
    /// `None` if it does not wait.
    room: Option<WaitPermit>,
    wait: Duration,
}

impl EndWait {
    /// Takes room for a client that waits.
    ///
    /// # Errors
    /// Too many clients wait.
    pub(super) fn take_room(
        request: &NativeRequest,
        queue: QueueKey,
        wait: DurationMs,
    ) -> Result<Self, NativeError> {
        let app = &request.app;
        let wait = Duration::from_millis(wait.as_ms()).min(app.wait_max);
        let principal = &request.principal;
        let take = || {
            let credential = principal.credential.clone();
            let engine = &app.engine;
            engine.take_wait_room(&queue.namespace, credential, principal.ends_at, 1)
        };
        let room = (!wait.is_zero()).then(take).transpose()?;
        Ok(Self {
            pool: Arc::clone(&principal.pool),
            queue,
            room,
            wait,
        })
    }

    /// Waits for the end of a job of the queue. If the client hangs up, the wait is dropped.
    ///
    /// # Errors
    /// Redis gave no answer, or the credential was revoked.
    async fn end_of(self, job: JobReference) -> Result<JobEnd, EndWaitError> {
        let until = Instant::now() + self.wait;
        let waiting = self.pool.result(&self.queue, job, until);
        let Some(room) = &self.room else {
            return Ok(waiting.await?);
        };
        tokio::select! {
            biased;
            () = room.revoked() => Err(EndWaitError::Revoked),
            end = waiting => Ok(end?),
        }
    }

    /// Waits for the end of a job that was published; `published` is the answer if it has not ended.
    ///
    /// # Errors
    /// The job is dead, or was deleted.
    pub(super) async fn answer(
        self,
        id: JobId,
        published: impl FnOnce() -> Response<Body>,
    ) -> Result<Response<Body>, NativeError> {
        match self.end_of(id.into()).await {
            Ok(JobEnd::Done(job)) => answer_of(&job),
            Ok(JobEnd::Dead(id)) => Err(dead(id).after_change()),
            Ok(JobEnd::AlreadyGone) => Err(gone().of_job(id).after_change()),
            Err(EndWaitError::Revoked) => {
                let revoked = NativeError::of(ProblemCode::KeyInvalid);
                Err(revoked.of_job(id).after_change())
            }
            // The job is stored: the client can ask again.
            Ok(JobEnd::NotEnded { .. }) | Err(EndWaitError::Failed(_)) => {
                let mut response = published();
                *response.status_mut() = StatusCode::ACCEPTED;
                Ok(response)
            }
        }
    }
}

/// The answer for a job that is done: its result.
fn answer_of(job: &Job) -> Result<Response<Body>, NativeError> {
    let mut response = match has_result(job) {
        true => bytes_answer(&job.content_type(), job.body.clone())?,
        false => {
            let mut response = Response::new(Body::empty());
            *response.status_mut() = StatusCode::NO_CONTENT;
            response
        }
    };
    if let Ok(id) = HeaderValue::try_from(job.id.to_string()) {
        response.headers_mut().insert(JOB_ID, id);
    }
    Ok(response)
}

fn dead(id: JobId) -> NativeError {
    let detail = "the job is dead; show it for its failures, or publish it again";
    NativeError::new(ProblemCode::JobDead, detail).of_job(id)
}

fn gone() -> NativeError {
    let detail = "there is no such job: it was cancelled or has expired, or it is done and was kept no longer (retain)";
    NativeError::new(ProblemCode::JobNotFound, detail)
}
