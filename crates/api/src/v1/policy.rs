//! `/v1/NAMESPACE/queues/QUEUE/policy`: shows, replaces and changes the policy of a queue.

use axum::body::Body;
use axum::http::{Response, StatusCode};
use tidegate_api_types::problem::{InvalidRequest, ProblemCode};
use tidegate_api_types::queue::{PolicyBody, PolicyDetails};
use tidegate_api_types::retry::RetryLadder;
use tidegate_api_types::values::{DurationMs, MaxAttempts, TimestampMs};
use tidegate_core::RetryDelays;
use tidegate_core::{Pause, QueuePolicy, RetryPolicy, Scope};
use tidegate_engine::{EngineError, PolicyChangeError};
use tidegate_store::{PolicySetOutcome, TableRevision};

use super::answer::json_answer;
use super::error::NativeError;
use super::native_request::NativeRequest;
use crate::http::etag::{self, NotAnETag, if_match};

pub(super) async fn show(request: NativeRequest) -> Result<Response<Body>, NativeError> {
    request.need(Scope::Read)?;
    request.without_query()?;
    let stored = request.pool().policies.get(&request.queue()?).await;
    let stored = stored.map_err(EngineError::from)?;
    if let Some(text) = stored.unreadable {
        return Err(unreadable(&text));
    }
    Ok(answer(&stored.policy, stored.revision))
}

/// Replaces the policy: fields that are absent have their defaults.
pub(super) async fn set(request: NativeRequest) -> Result<Response<Body>, NativeError> {
    store(request, true).await
}

/// Changes the fields in the body.
pub(super) async fn patch(request: NativeRequest) -> Result<Response<Body>, NativeError> {
    store(request, false).await
}

async fn store(mut request: NativeRequest, replaces: bool) -> Result<Response<Body>, NativeError> {
    request.need(Scope::Admin)?;
    request.without_query()?;
    let queue = request.queue()?;
    let expected = if_match(&request.headers)?;
    let body: PolicyBody = request.read_json().await?;
    let table = &request.pool().policies;
    if replaces {
        let new = policy(&body.apply_to(&PolicyDetails::default())?)?;
        return match table.set(&queue, &new, expected).await {
            Ok(PolicySetOutcome::Done(revision)) => Ok(answer(&new, revision)),
            Ok(PolicySetOutcome::VersionMismatch(_)) => {
                Err(NativeError::of(ProblemCode::VersionMismatch))
            }
            Err(error) => Err(EngineError::from(error).into()),
        };
    }
    let merge = |stored: QueuePolicy| policy(&body.apply_to(&view(&stored))?);
    let changed = table.change(&queue, expected, merge).await;
    let (policy, revision) = changed.map_err(|error| match error {
        PolicyChangeError::VersionMismatch => NativeError::of(ProblemCode::VersionMismatch),
        PolicyChangeError::Unreadable { text } => unreadable(&text),
        PolicyChangeError::Rejected(invalid) => invalid.into(),
        PolicyChangeError::Store(error) => EngineError::from(error).into(),
    })?;
    Ok(answer(&policy, revision))
}

fn unreadable(text: &str) -> NativeError {
    let detail = format!(
        "the stored policy is damaged, and the defaults apply; replace it with PUT; stored is {text:?}"
    );
    NativeError::new(ProblemCode::PolicyUnreadable, detail)
}

fn answer(policy: &QueuePolicy, revision: TableRevision) -> Response<Body> {
    let mut response = json_answer(StatusCode::OK, &view(policy));
    etag::set(response.headers_mut(), revision);
    response
}

impl From<NotAnETag> for NativeError {
    fn from(_: NotAnETag) -> Self {
        let detail = "If-Match should be the ETag of a policy, in quotes, or *";
        InvalidRequest::of_field("if-match", detail).into()
    }
}

/// A policy as the native API shows it.
fn view(policy: &QueuePolicy) -> PolicyDetails {
    let delays = &policy.retry.delays;
    let attempts = MaxAttempts::try_from(u64::from(policy.retry.max_attempts));
    PolicyDetails {
        lease: DurationMs::saturating(policy.lease_ms),
        retry: RetryLadder {
            max_attempts: attempts.unwrap_or_default(),
            delays: delays
                .steps_ms
                .iter()
                .map(|ms| DurationMs::saturating(*ms))
                .collect(),
            jitter: f64::from(delays.jitter_permille) / 1000.0,
        },
        retain: DurationMs::saturating(policy.retain_ms),
        paused: policy.pause != Pause::No,
        paused_until: match policy.pause {
            Pause::Until(end_ms) => Some(TimestampMs::saturating(end_ms)),
            Pause::No | Pause::UntilResumed => None,
        },
        closed: policy.closed,
        max_jobs: policy.max_jobs,
        keep_dead: policy.keep_dead_ms.map(DurationMs::saturating),
    }
}

/// The policy that a client wants.
fn policy(wanted: &PolicyDetails) -> Result<QueuePolicy, InvalidRequest> {
    let policy = QueuePolicy {
        lease_ms: wanted.lease.as_ms(),
        retry: RetryPolicy {
            delays: RetryDelays {
                steps_ms: wanted
                    .retry
                    .delays
                    .iter()
                    .map(|delay| delay.as_ms())
                    .collect(),
                jitter_permille: (wanted.retry.jitter * 1000.0).round() as u16,
            },
            max_attempts: wanted.retry.max_attempts.get(),
        },
        retain_ms: wanted.retain.as_ms(),
        pause: match (wanted.paused, wanted.paused_until) {
            (false, _) => Pause::No,
            (true, None) => Pause::UntilResumed,
            (true, Some(end)) => Pause::Until(end.as_ms()),
        },
        closed: wanted.closed,
        max_jobs: wanted.max_jobs,
        keep_dead_ms: wanted.keep_dead.map(|kept| kept.as_ms()),
    };
    let checked = policy.check();
    checked.map_err(|invalid| {
        // The names of this front door have no unit: durations are text.
        let field = invalid.field.trim_end_matches("_ms");
        InvalidRequest::of_field(field, format!("{field} should be {}", invalid.bounds))
    })?;
    Ok(policy)
}
