//! Converts answers of the native API to outcomes of a history.

use serde::de::DeserializeOwned;
use tidegate_core::v1::consume::{LeasedJobView, Outcome, ReserveAnswer, SettleAnswer};
use tidegate_core::v1::job::{CancelAnswer, ChangedJob, DeadReason, JobDetails, PromotedJob};
use tidegate_core::v1::problem::{Applied, Problem, ProblemCode};
use tidegate_core::v1::publish::{BatchAnswer, BatchItemResult, PublishedJob};
use tidegate_core::v1::values::Base64Bytes;
use tidegate_testkit::Answer;

use super::draw::job_lease;
use super::key_text::key_number;
use crate::history::{
    CancelEffect, JobEndAnswer, NativeAnswer, NativeCall, PublishMode, RequestOutcome,
    ReservedVersion, SettleAction, ShownVersion, VersionResult, VersionSpec, micros,
};
use crate::traffic::payload::number_in;
use crate::traffic::shared::queue_number;

const MS: u64 = 1000;
/// The status in a history of an answer that could not be read.
const UNREADABLE: u16 = 599;
const ACCEPTED: u16 = 202;
const NO_CONTENT: u16 = 204;

/// Returns the outcome of a call with this answer.
pub(super) fn answer_to(call: &NativeCall, answer: &Answer) -> RequestOutcome {
    let read = match answer.status {
        200..=299 => success(call, answer),
        _ => failure(call, answer),
    };
    read.unwrap_or(RequestOutcome::Failed(UNREADABLE))
}

fn parsed<T: DeserializeOwned>(answer: &Answer) -> Option<T> {
    serde_json::from_slice(&answer.body).ok()
}

fn success(call: &NativeCall, answer: &Answer) -> Option<RequestOutcome> {
    Some(RequestOutcome::Native(match call {
        NativeCall::Publish { versions, .. } if answer.status != ACCEPTED && waits(versions) => {
            NativeAnswer::Ended {
                id: answer.header("tidegate-job-id")?.to_owned(),
                end: end_of(answer),
            }
        }
        NativeCall::Publish {
            mode: PublishMode::Single,
            ..
        } => NativeAnswer::Published(vec![published(&parsed(answer)?)]),
        NativeCall::Publish { .. } => {
            let batch: BatchAnswer = parsed(answer)?;
            let results = batch.results.iter().map(|result| match result {
                BatchItemResult::Published(job) => published(job),
                BatchItemResult::Failed { problem } => refused(problem),
            });
            NativeAnswer::Published(results.collect())
        }
        NativeCall::Reserve { lease, .. } => {
            let reserved: ReserveAnswer = parsed(answer)?;
            let jobs = reserved.jobs.into_iter();
            NativeAnswer::Reserved(jobs.map(|job| reserved_version(job, *lease)).collect())
        }
        NativeCall::Settle { action, .. } => NativeAnswer::Settled(settled(*action, answer)?),
        NativeCall::Cancel { .. } => {
            let (id, effect) = match parsed(answer)? {
                CancelAnswer::Cancelled { id, was } => (id, CancelEffect::Deleted(was)),
                CancelAnswer::CancelRequested { id } => (id, CancelEffect::Requested),
                CancelAnswer::Revoked { id } => (id, CancelEffect::Revoked),
                CancelAnswer::AlreadyDone { id } => (id, CancelEffect::AlreadyDone),
            };
            NativeAnswer::Cancelled {
                id: id.to_string(),
                effect,
            }
        }
        NativeCall::Change { .. } => {
            let changed: ChangedJob = parsed(answer)?;
            NativeAnswer::Due {
                id: changed.id.to_string(),
                run_at: micros(changed.run_at),
            }
        }
        NativeCall::Promote { .. } => {
            let promoted: PromotedJob = parsed(answer)?;
            NativeAnswer::Due {
                id: promoted.id.to_string(),
                run_at: micros(promoted.run_at),
            }
        }
        NativeCall::Show { .. } => NativeAnswer::Shown(Box::new(shown(parsed(answer)?))),
    }))
}

fn failure(call: &NativeCall, answer: &Answer) -> Option<RequestOutcome> {
    let problem: Problem = parsed(answer)?;
    let status = problem.status;
    Some(match (call, problem.code) {
        (
            NativeCall::Publish { versions, .. },
            ProblemCode::KeyTaken | ProblemCode::IdempotencyKeyReused,
        ) => {
            let results = vec![VersionResult::Refused(status); versions.len()];
            RequestOutcome::Native(NativeAnswer::Published(results))
        }
        (NativeCall::Publish { versions, .. }, ProblemCode::JobNotFound | ProblemCode::JobDead)
            if waits(versions) =>
        {
            let end = match problem.code {
                ProblemCode::JobDead => JobEndAnswer::Dead,
                _ => JobEndAnswer::Gone,
            };
            let id = problem.job?;
            RequestOutcome::Native(NativeAnswer::Ended { id, end })
        }
        (_, ProblemCode::JobNotFound) => RequestOutcome::Native(NativeAnswer::NotFound),
        (_, ProblemCode::JobRunning | ProblemCode::JobDead) => {
            RequestOutcome::Native(NativeAnswer::Conflict)
        }
        _ if problem.applied == Some(Applied::No) => RequestOutcome::Refused(status),
        _ => RequestOutcome::Failed(status),
    })
}

fn waits(versions: &[VersionSpec]) -> bool {
    versions.iter().any(|version| version.wait > 0)
}

/// Returns how a job has ended that is done.
fn end_of(answer: &Answer) -> JobEndAnswer {
    if answer.status == NO_CONTENT {
        return JobEndAnswer::NoResult;
    }
    parsed(answer).map_or(JobEndAnswer::Foreign, JobEndAnswer::Result)
}

fn published(job: &PublishedJob) -> VersionResult {
    VersionResult::Job {
        id: job.id.to_string(),
        outcome: job.outcome,
        state: job.state,
        run_at: job.run_at.map(micros),
        is_replayed: job.replayed,
    }
}

fn refused(problem: &Problem) -> VersionResult {
    match problem.applied {
        Some(Applied::No) => VersionResult::Refused(problem.status),
        _ => VersionResult::Failed(problem.status),
    }
}

fn reserved_version(job: LeasedJobView, lease: Option<u64>) -> ReservedVersion {
    let base64 = job.payload_base64.map(|Base64Bytes(bytes)| bytes);
    let bytes = job.payload.map(Vec::from).or(base64).unwrap_or_default();
    let number = number_in(&bytes, &job.attributes.0);
    let lease_until = micros(job.lease_until);
    let lease = lease.unwrap_or_else(|| job_lease(number.unwrap_or_default()));
    ReservedVersion {
        number,
        id: job.id.to_string(),
        key: job.key.and_then(|key| key_number(key.as_str())),
        queue: queue_number(job.queue.as_str()).unwrap_or(u16::MAX),
        attempt: job.attempt,
        lease: job.lease.into(),
        failures: job.failures,
        run_at: micros(job.run_at),
        // The script counts a lease from the end of the millisecond in which it runs.
        reserved: lease_until.saturating_sub(lease + MS),
        lease_until,
    }
}

fn settled(action: SettleAction, answer: &Answer) -> Option<Vec<Outcome>> {
    let answer: SettleAnswer = parsed(answer)?;
    let are_of_call = answer.results.iter().all(|it| action.call().can_end_in(it));
    are_of_call.then_some(answer.results)
}

fn shown(details: JobDetails) -> ShownVersion {
    ShownVersion {
        id: details.id.to_string(),
        state: details.state,
        attempt: details.attempt,
        failures: details.failures,
        losses: details.losses,
        died_of_losses: details.reason == Some(DeadReason::Losses),
    }
}
