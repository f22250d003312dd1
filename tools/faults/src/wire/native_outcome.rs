//! Converts answers of the native API to outcomes of a history.

use serde::de::DeserializeOwned;
use tidegate_core::v1::consume::{LeasedJobView, Outcome, ReserveAnswer, SettleAnswer};
use tidegate_core::v1::job::{CancelAnswer, ChangedJob, DeadReason, JobDetails, PromotedJob};
use tidegate_core::v1::problem::{Applied, Problem, ProblemCode};
use tidegate_core::v1::publish::{BatchAnswer, BatchItemResult, PublishedJob};
use tidegate_core::v1::values::Base64Bytes;
use tidegate_testkit::Answer;

use super::job_lease;
use super::key_text::key_number;
use super::payload::number_in;
use super::queue_name::queue_number;
use crate::history::{
    CancelEffect, ClientRequest, Delivery, JobAddress, JobEndAnswer, PublishMode, RequestOutcome,
    SettleAction, ShownJob, VersionResult, VersionSpec, micros,
};

const MS: u64 = 1000;
const ACCEPTED: u16 = 202;
const NO_CONTENT: u16 = 204;

/// Returns the outcome of a request with this answer; `None` if it could not be read.
pub(super) fn outcome(request: &ClientRequest, answer: &Answer) -> Option<RequestOutcome> {
    match answer.status {
        200..=299 => success(request, answer),
        _ => failure(request, answer),
    }
}

fn parsed<T: DeserializeOwned>(answer: &Answer) -> Option<T> {
    serde_json::from_slice(&answer.body).ok()
}

fn success(request: &ClientRequest, answer: &Answer) -> Option<RequestOutcome> {
    Some(match request {
        ClientRequest::Publish { versions, .. } if answer.status != ACCEPTED && waits(versions) => {
            RequestOutcome::Ended {
                id: answer.header("tidegate-job-id")?.to_owned(),
                end: end_of(answer),
            }
        }
        ClientRequest::Publish {
            mode: PublishMode::Single,
            ..
        } => RequestOutcome::Published(vec![published(&parsed(answer)?)]),
        ClientRequest::Publish { .. } => {
            let batch: BatchAnswer = parsed(answer)?;
            let results = batch.results.iter().map(|result| match result {
                BatchItemResult::Published(job) => published(job),
                BatchItemResult::Failed { problem } => refused(problem),
            });
            RequestOutcome::Published(results.collect())
        }
        ClientRequest::Reserve { lease, .. } => {
            let reserved: ReserveAnswer = parsed(answer)?;
            let jobs = reserved.jobs.into_iter();
            RequestOutcome::Delivered(jobs.map(|job| delivery(job, *lease)).collect())
        }
        ClientRequest::Settle { action, .. } => RequestOutcome::Settled(settled(*action, answer)?),
        ClientRequest::Cancel { .. } => {
            let (id, effect) = match parsed(answer)? {
                CancelAnswer::Cancelled { id, was } => (id, CancelEffect::Deleted(was)),
                CancelAnswer::CancelRequested { id } => (id, CancelEffect::Requested),
                CancelAnswer::Revoked { id } => (id, CancelEffect::Revoked),
                CancelAnswer::AlreadyDone { id } => (id, CancelEffect::AlreadyDone),
            };
            RequestOutcome::Cancelled {
                id: id.to_string(),
                effect,
            }
        }
        ClientRequest::Change { .. } => {
            let changed: ChangedJob = parsed(answer)?;
            RequestOutcome::Due {
                id: changed.id.to_string(),
                run_at: micros(changed.run_at),
            }
        }
        ClientRequest::Promote { .. } => {
            let promoted: PromotedJob = parsed(answer)?;
            RequestOutcome::Due {
                id: promoted.id.to_string(),
                run_at: micros(promoted.run_at),
            }
        }
        ClientRequest::Result {
            job: JobAddress::Id(id),
            ..
        } => RequestOutcome::Ended {
            id: id.clone(),
            end: end_of(answer),
        },
        ClientRequest::Show { .. } => RequestOutcome::Shown(Box::new(shown(parsed(answer)?))),
        _ => return None,
    })
}

fn failure(request: &ClientRequest, answer: &Answer) -> Option<RequestOutcome> {
    let problem: Problem = parsed(answer)?;
    let status = problem.status;
    Some(match (request, problem.code) {
        (
            ClientRequest::Publish { versions, .. },
            ProblemCode::KeyTaken | ProblemCode::IdempotencyKeyReused,
        ) => {
            let results = vec![VersionResult::Refused(status); versions.len()];
            RequestOutcome::Published(results)
        }
        (
            ClientRequest::Publish { versions, .. },
            ProblemCode::JobNotFound | ProblemCode::JobDead,
        ) if waits(versions) => {
            let end = match problem.code {
                ProblemCode::JobDead => JobEndAnswer::Dead,
                _ => JobEndAnswer::Gone,
            };
            let id = problem.job?;
            RequestOutcome::Ended { id, end }
        }
        (_, ProblemCode::JobNotFound) => RequestOutcome::NotFound,
        (_, ProblemCode::JobRunning | ProblemCode::JobDead) => RequestOutcome::Conflict,
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

fn delivery(job: LeasedJobView, lease: Option<u64>) -> Delivery {
    let base64 = job.payload_base64.map(|Base64Bytes(bytes)| bytes);
    let bytes = job.payload.map(Vec::from).or(base64).unwrap_or_default();
    let number = number_in(&bytes, &job.attributes.0);
    let lease_until = micros(job.lease_until);
    let lease = lease.unwrap_or_else(|| job_lease(number.unwrap_or_default()));
    Delivery {
        number,
        id: job.id.to_string(),
        key: job.key.and_then(|key| key_number(key.as_str())),
        queue: queue_number(job.queue.as_str()),
        attempt: Some(job.attempt),
        failures: Some(job.failures),
        tries_left: None,
        created: None,
        run_at: Some(micros(job.run_at)),
        lease: job.lease.into(),
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

fn shown(details: JobDetails) -> ShownJob {
    ShownJob {
        id: details.id.to_string(),
        state: details.state,
        attempt: details.attempt,
        failures: details.failures,
        losses: details.losses,
        died_of_losses: details.reason == Some(DeadReason::Losses),
    }
}
