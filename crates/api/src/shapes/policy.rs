//! Policies of queues.

use tidegate_api_types::problem::InvalidRequest;
use tidegate_api_types::queue::PolicyDetails;
use tidegate_api_types::retry::RetryLadder;
use tidegate_api_types::values::{DurationMs, MaxAttempts, TimestampMs};
use tidegate_core::{Pause, QueuePolicy, RetryDelays, RetryPolicy};

/// What is shown of a policy.
pub(crate) fn policy_details(policy: &QueuePolicy) -> PolicyDetails {
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
        max_running: policy.max_running,
        keep_dead: policy.keep_dead_ms.map(DurationMs::saturating),
    }
}

/// The policy that a client wants.
///
/// # Errors
/// A field is out of its bounds.
pub(crate) fn stored_policy(wanted: &PolicyDetails) -> Result<QueuePolicy, InvalidRequest> {
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
        max_running: wanted.max_running,
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
