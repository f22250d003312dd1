//! `/v1/NAMESPACE/queues/QUEUE/jobs/JOB`: shows, changes, promotes and cancels a job.

use axum::body::Body;
use axum::http::{Response, StatusCode};
use tidegate_api_types::FieldChange;
use tidegate_api_types::job::{
    CancelAnswer, CancelQuery, ChangeBody, ChangeResult, ChangedJob, DeadReason, HistoryEntry,
    JobDetails, JobQuery, PromoteResult, PromotedJob,
};
use tidegate_api_types::problem::ProblemCode;
use tidegate_api_types::publish::DueTime;
use tidegate_api_types::values::{IfRunningOption, TimestampMs};
use tidegate_core::{Job, JobState, QueueKey, Scope};
use tidegate_store::{
    CancelOutcome, ChangeOutcome, FailureEffect, IfRunning, JobChange, JobReference, LoggedFailure,
    NewDue, PromoteOutcome,
};

use super::answer::{bytes_answer, json_answer};
use super::content::{attributes_of, content_type_of, id_text, key_of, queue_text, state_name};
use super::error::NativeError;
use super::native_request::{NativeRequest, not_found};

pub(super) async fn show(request: NativeRequest) -> Result<Response<Body>, NativeError> {
    let queue = request.queue()?;
    let query: JobQuery = request.read_query()?;
    let job = request.job(&queue, query.key.as_ref().map(|key| key.as_str()))?;
    need_for_job(&request, job)?;
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

/// A job may be shown to those who know its key; any job with the scope `read`.
fn need_for_job(request: &NativeRequest, job: JobReference) -> Result<(), NativeError> {
    match (job, request.need(Scope::Read)) {
        (JobReference::Key(_), Err(_)) => request.need(Scope::Publish),
        (_, read) => read,
    }
}

/// What is shown of a job.
pub(super) fn details(
    queue: &QueueKey,
    job: &Job,
    max_attempts: u16,
    failures: &[LoggedFailure],
) -> JobDetails {
    let counts = job.failures.unwrap_or_default();
    let max_attempts = match job.failures {
        Some(_) => max_attempts.into(),
        None => job.attempt + u32::from(job.tries_left),
    };
    JobDetails {
        id: id_text(job.id),
        queue: queue_text(queue),
        key: key_of(job),
        state: state_name(job.state),
        created_at: TimestampMs::saturating(job.created_at_ms),
        run_at: (!matches!(job.state, JobState::Leased | JobState::Done))
            .then(|| TimestampMs::saturating(job.due_at_ms)),
        lease_until: (job.state == JobState::Leased)
            .then(|| TimestampMs::saturating(job.due_at_ms)),
        attempt: job.attempt,
        failures: counts.failures.into(),
        losses: counts.losses.into(),
        max_attempts,
        attributes: attributes_of(job),
        // The payload of a job that is done is not kept.
        content_type: (job.state != JobState::Done).then(|| content_type_of(job)),
        payload_bytes: match job.state {
            JobState::Done => 0,
            _ => job.body.len() as u64,
        },
        reason: (job.state == JobState::Dead).then(|| reason_of(job, failures)),
        history: failures.iter().map(entry).collect(),
    }
}

/// Why a job is dead. If its last attempt was not reported as failed, its worker was lost.
pub(super) fn reason_of(job: &Job, failures: &[LoggedFailure]) -> DeadReason {
    match failures.last().filter(|last| last.attempt == job.attempt) {
        Some(last) if last.effect == FailureEffect::DeadForGood => DeadReason::Permanent,
        Some(_) => DeadReason::Failures,
        None => DeadReason::Losses,
    }
}

fn entry(failure: &LoggedFailure) -> HistoryEntry {
    HistoryEntry {
        attempt: failure.attempt,
        ended_at: TimestampMs::saturating(failure.at_ms),
        error: Some(failure.error.as_str().into()),
    }
}

pub(super) async fn payload(request: NativeRequest) -> Result<Response<Body>, NativeError> {
    request.need(Scope::Read)?;
    let queue = request.queue()?;
    let query: JobQuery = request.read_query()?;
    let job = request.job(&queue, query.key.as_ref().map(|key| key.as_str()))?;
    let peeked = request.pool().peek_job(&queue, job).await?;
    let found = peeked.ok_or_else(not_found)?.job;
    if found.state == JobState::Done {
        let detail = "the job is done; its payload is not kept";
        return Err(NativeError::new(ProblemCode::JobNotFound, detail));
    }
    bytes_answer(&content_type_of(&found), found.body)
}

pub(super) async fn change(mut request: NativeRequest) -> Result<Response<Body>, NativeError> {
    request.need(Scope::Publish)?;
    let queue = request.queue()?;
    let query: JobQuery = request.read_query()?;
    let job = request.job(&queue, query.key.as_ref().map(|key| key.as_str()))?;
    let body: ChangeBody = request.read_json().await?;
    let change = stored_change(&body);
    match request.pool().change(&queue, job, change).await? {
        ChangeOutcome::AlreadyGone => Err(not_found()),
        ChangeOutcome::NotWaiting(state) => Err(not_waiting(state)),
        ChangeOutcome::Done(job) => {
            let answer = ChangedJob {
                id: id_text(job.id),
                key: key_of(&job),
                outcome: ChangeResult::Changed,
                state: state_name(job.state),
                run_at: TimestampMs::saturating(job.due_at_ms),
            };
            Ok(json_answer(StatusCode::OK, &answer))
        }
    }
}

/// A change as the store takes it.
pub(super) fn stored_change(body: &ChangeBody) -> JobChange {
    JobChange {
        due: body.due().map(|due| match due {
            DueTime::After(delay) => NewDue::InMs(delay.as_ms()),
            DueTime::At(instant) => NewDue::AtMs(instant.as_ms()),
        }),
        start_within_ms: match body.start_within {
            FieldChange::Keep => None,
            FieldChange::Reset => Some(0),
            FieldChange::Set(limit) => Some(limit.as_ms()),
        },
    }
}

/// The error for a job that is neither delayed nor ready.
fn not_waiting(state: JobState) -> NativeError {
    match state {
        JobState::Leased => NativeError::of(ProblemCode::JobRunning),
        JobState::Dead => NativeError::of(ProblemCode::JobDead),
        JobState::Delayed | JobState::Ready | JobState::Done => not_found(),
    }
}

pub(super) async fn promote(request: NativeRequest) -> Result<Response<Body>, NativeError> {
    request.need(Scope::Publish)?;
    let queue = request.queue()?;
    let query: JobQuery = request.read_query()?;
    let job = request.job(&queue, query.key.as_ref().map(|key| key.as_str()))?;
    let (id, due_at_ms, was_delayed) = match request.pool().promote(&queue, job).await? {
        PromoteOutcome::AlreadyGone => return Err(not_found()),
        PromoteOutcome::NotWaiting(state) => return Err(not_waiting(state)),
        PromoteOutcome::Done {
            id,
            due_at_ms,
            was_delayed,
        } => (id, due_at_ms, was_delayed),
    };
    let answer = PromotedJob {
        id: id_text(id),
        key: request.job_key(query.key.as_ref().map(|key| key.as_str())),
        outcome: match was_delayed {
            true => PromoteResult::Promoted,
            false => PromoteResult::AlreadyReady,
        },
        run_at: TimestampMs::saturating(due_at_ms),
    };
    Ok(json_answer(StatusCode::OK, &answer))
}

pub(super) const fn stored_if_running(option: IfRunningOption) -> IfRunning {
    match option {
        IfRunningOption::Refuse => IfRunning::Refuse,
        IfRunningOption::Ask => IfRunning::Ask,
        IfRunningOption::Revoke => IfRunning::Revoke,
    }
}

pub(super) async fn cancel(request: NativeRequest) -> Result<Response<Body>, NativeError> {
    request.need(Scope::Publish)?;
    let queue = request.queue()?;
    let query: CancelQuery = request.read_query()?;
    let job = request.job(&queue, query.key.as_ref().map(|key| key.as_str()))?;
    let if_running = stored_if_running(query.running);
    let answer = match request.pool().cancel(&queue, job, if_running).await? {
        CancelOutcome::AlreadyGone => return Err(not_found()),
        CancelOutcome::Leased => return Err(NativeError::of(ProblemCode::JobRunning)),
        CancelOutcome::Requested(id) => CancelAnswer::CancelRequested { id: id_text(id) },
        CancelOutcome::AlreadyDone(id) => CancelAnswer::AlreadyDone { id: id_text(id) },
        CancelOutcome::Done {
            id,
            was: JobState::Leased,
        } => CancelAnswer::Revoked { id: id_text(id) },
        CancelOutcome::Done { id, was } => CancelAnswer::Cancelled {
            id: id_text(id),
            was: state_name(was),
        },
    };
    let status = StatusCode::from_u16(answer.status()).unwrap_or(StatusCode::OK);
    Ok(json_answer(status, &answer))
}
