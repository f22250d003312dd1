//! `/v1/NAMESPACE/queues/QUEUE/jobs/JOB`: shows, changes, promotes and cancels a job.

use axum::body::Body;
use axum::http::{Response, StatusCode};
use tidegate_core::v1::job::{
    CancelAnswer, CancelQuery, ChangeResult, ChangedJob, JobChange, JobQuery, PromoteResult,
    PromotedJob,
};
use tidegate_core::v1::problem::ProblemCode;
use tidegate_core::v1::values::Timestamp;
use tidegate_core::{JobState, Scope};
use tidegate_store::{CancelOutcome, ChangeOutcome, JobReference, PromoteOutcome};

use super::answer::{bytes_answer, json_answer};
use super::error::NativeError;
use super::job_details::details;
use super::native_request::{NativeRequest, not_found};

pub(super) async fn show(request: NativeRequest) -> Result<Response<Body>, NativeError> {
    let queue = request.queue()?;
    let query: JobQuery = request.read_query()?;
    let job = request.job(&queue, query.key.as_ref().map(|key| key.as_str()))?;
    // A key is known only to those who may publish with it.
    if matches!(job, JobReference::Id(_)) {
        request.need(Scope::Read)?;
    }
    let peeked = request.pool().peek_job(&queue, job).await?;
    let found = peeked.ok_or_else(not_found)?;
    let max_attempts = request.pool().max_attempts(&queue, &found.job);
    let failures = request.pool().history(&found.job).await?;
    let mut details = details(&queue, &found.job, max_attempts, &failures);
    // The key of a job that is done is known only to those who name it.
    let by_key = request.job_key(query.key.as_ref().map(|key| key.as_str()));
    details.key = details.key.or(by_key);
    // Errors may quote payloads.
    if request.need(Scope::Read).is_err() {
        details.history.clear();
    }
    Ok(json_answer(StatusCode::OK, &details))
}

pub(super) async fn payload(request: NativeRequest) -> Result<Response<Body>, NativeError> {
    let queue = request.queue()?;
    let query: JobQuery = request.read_query()?;
    let job = request.job(&queue, query.key.as_ref().map(|key| key.as_str()))?;
    let peeked = request.pool().peek_job(&queue, job).await?;
    let found = peeked.ok_or_else(not_found)?.job;
    if found.state == JobState::Done {
        let detail = "the job is done; its payload is not kept";
        return Err(NativeError::new(ProblemCode::JobNotFound, detail));
    }
    bytes_answer(&found.content_type(), found.body)
}

pub(super) async fn change(mut request: NativeRequest) -> Result<Response<Body>, NativeError> {
    let queue = request.queue()?;
    let query: JobQuery = request.read_query()?;
    let job = request.job(&queue, query.key.as_ref().map(|key| key.as_str()))?;
    let change: JobChange = request.read_json().await?;
    match request.pool().change(&queue, job, change).await? {
        ChangeOutcome::AlreadyGone => Err(not_found()),
        ChangeOutcome::NotWaiting(state) => Err(not_waiting(state)),
        ChangeOutcome::Done(job) => {
            let answer = ChangedJob {
                id: job.id,
                key: request.job_key(query.key.as_ref().map(|key| key.as_str())),
                outcome: ChangeResult::Changed,
                state: job.state,
                run_at: Timestamp::saturating(job.due_at_ms),
            };
            Ok(json_answer(StatusCode::OK, &answer))
        }
    }
}

/// The error for a job that is neither delayed nor ready.
fn not_waiting(state: JobState) -> NativeError {
    match state {
        JobState::Leased => NativeError::new(
            ProblemCode::JobRunning,
            "a worker holds the job, so it has no due time. The worker delays the next attempt: it fails the job with retry_in or \
             releases it with delay. A job with a key also runs again after a publish with this key, the new time and \
             if_exists=replace",
        ),
        JobState::Dead => NativeError::of(ProblemCode::JobDead),
        JobState::Delayed | JobState::Ready | JobState::Done => not_found(),
    }
}

pub(super) async fn promote(request: NativeRequest) -> Result<Response<Body>, NativeError> {
    let queue = request.queue()?;
    let query: JobQuery = request.read_query()?;
    let job = request.job(&queue, query.key.as_ref().map(|key| key.as_str()))?;
    let promoted = match request.pool().promote(&queue, job).await? {
        PromoteOutcome::AlreadyGone => return Err(not_found()),
        PromoteOutcome::NotWaiting(state) => return Err(not_waiting(state)),
        PromoteOutcome::Done(promoted) => promoted,
    };
    let answer = PromotedJob {
        id: promoted.id,
        key: request.job_key(query.key.as_ref().map(|key| key.as_str())),
        outcome: match promoted.was_delayed {
            true => PromoteResult::Promoted,
            false => PromoteResult::AlreadyReady,
        },
        run_at: Timestamp::saturating(promoted.due_at_ms),
    };
    Ok(json_answer(StatusCode::OK, &answer))
}

pub(super) async fn cancel(request: NativeRequest) -> Result<Response<Body>, NativeError> {
    let queue = request.queue()?;
    let query: CancelQuery = request.read_query()?;
    let job = request.job(&queue, query.key.as_ref().map(|key| key.as_str()))?;
    let if_running = query.running;
    let answer = match request.pool().cancel(&queue, job, if_running).await? {
        CancelOutcome::AlreadyGone => return Err(not_found()),
        CancelOutcome::Leased => return Err(NativeError::of(ProblemCode::JobRunning)),
        CancelOutcome::Requested(id) => CancelAnswer::CancelRequested { id },
        CancelOutcome::AlreadyDone(id) => CancelAnswer::AlreadyDone { id },
        CancelOutcome::Done {
            id,
            was: JobState::Leased,
        } => CancelAnswer::Revoked { id },
        CancelOutcome::Done { id, was } => CancelAnswer::Cancelled { id, was },
    };
    let status = StatusCode::from_u16(answer.status()).unwrap_or(StatusCode::OK);
    Ok(json_answer(status, &answer))
}
