//! Jobs as they are shown.

use tidegate_core::v1::job::{DeadReason, HistoryEntry, JobDetails};
use tidegate_core::v1::values::{Priority, Timestamp};
use tidegate_core::{Job, JobState, QueueKey};
use tidegate_engine::Pool;
use tidegate_store::{FailureEffect, ListedJob, LoggedFailure};

/// The details of a job.
pub(crate) fn details(
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
    let is_done = job.state == JobState::Done;
    JobDetails {
        id: job.id,
        queue: queue.queue.clone(),
        key: job.key(),
        group: job.group(),
        state: job.state,
        priority: Priority::saturating(job.priority),
        created_at: Timestamp::saturating(job.created_at_ms),
        run_at: (!matches!(job.state, JobState::Leased | JobState::Done))
            .then(|| Timestamp::saturating(job.due_at_ms)),
        lease_until: (job.state == JobState::Leased).then(|| Timestamp::saturating(job.due_at_ms)),
        done_at: is_done.then(|| Timestamp::saturating(job.due_at_ms)),
        attempt: job.attempt,
        failures: counts.failures.into(),
        losses: counts.losses.into(),
        max_attempts,
        attributes: job.client_attributes(),
        // The payload of a job that is done is not kept.
        content_type: (!is_done).then(|| job.content_type()),
        payload_bytes: if is_done { 0 } else { job.body.len() as u64 },
        result_bytes: (is_done && has_result(job)).then_some(job.body.len() as u64),
        reason: (job.state == JobState::Dead).then(|| reason_of(job, failures)),
        history: failures.iter().map(entry).collect(),
    }
}

/// Whether a job that is done has a result. An empty result has a content type.
pub(crate) fn has_result(job: &Job) -> bool {
    !job.body.is_empty() || !job.attributes.is_empty()
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
        ended_at: Timestamp::saturating(failure.at_ms),
        error: Some(failure.error.as_str().into()),
    }
}

/// A job as it is listed: with the last entry of its history only.
pub(crate) fn listed_details(pool: &Pool, queue: &QueueKey, listed: &ListedJob) -> JobDetails {
    let max_attempts = pool.max_attempts(queue, &listed.job);
    let failures = listed.last_failure.as_slice();
    let mut details = details(queue, &listed.job, max_attempts, failures);
    details.payload_bytes = listed.body_bytes;
    if listed.is_damaged {
        details.content_type = None;
        details.reason = details.reason.map(|_| DeadReason::Unreadable);
    }
    details
}
