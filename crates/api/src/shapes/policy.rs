//! Policies of queues.

use tidegate_core::v1::problem::InvalidRequest;
use tidegate_core::v1::queue::PolicyDetails;
use tidegate_core::v1::retry::RetryDetails;
use tidegate_core::v1::values::{DurationMs, MaxAttempts, Timestamp};
use tidegate_core::{Pause, QueuePolicy, RetryDelays, RetryPolicy, RetrySteps};

/// What is shown of a policy.
pub(crate) fn policy_details(policy: &QueuePolicy) -> PolicyDetails {
    PolicyDetails {
        lease: DurationMs::saturating(policy.lease_ms),
        retry: retry_details(&policy.retry),
        retain: DurationMs::saturating(policy.retain_ms),
        paused: policy.pause != Pause::No,
        paused_until: match policy.pause {
            Pause::Until(end_ms) => Some(Timestamp::saturating(end_ms)),
            Pause::No | Pause::UntilResumed => None,
        },
        closed: policy.closed,
        max_jobs: policy.max_jobs,
        max_running: policy.max_running,
        keep_dead: policy.keep_dead_ms.map(DurationMs::saturating),
    }
}

fn retry_details(policy: &RetryPolicy) -> RetryDetails {
    let attempts = MaxAttempts::try_from(u64::from(policy.max_attempts));
    let mut details = RetryDetails {
        max_attempts: attempts.unwrap_or_default(),
        delays: None,
        first: None,
        factor: None,
        max: None,
        jitter: f64::from(policy.delays.jitter_permille) / 1000.0,
    };
    match &policy.delays.steps {
        RetrySteps::Listed(delays) => {
            let delays = delays.iter().map(|ms| DurationMs::saturating(*ms));
            details.delays = Some(delays.collect());
        }
        RetrySteps::Growing {
            first_ms,
            factor,
            max_ms,
        } => {
            details.first = Some(DurationMs::saturating(*first_ms));
            details.factor = Some(*factor);
            details.max = Some(DurationMs::saturating(*max_ms));
        }
    }
    details
}

/// The delays of a complete retry policy.
pub(crate) fn stored_delays(retry: &RetryDetails) -> RetryDelays {
    let or_zero = |delay: Option<DurationMs>| delay.unwrap_or_default().as_ms();
    RetryDelays {
        steps: match &retry.delays {
            Some(delays) => RetrySteps::Listed(delays.iter().map(|it| it.as_ms()).collect()),
            None => RetrySteps::Growing {
                first_ms: or_zero(retry.first),
                factor: retry.factor.unwrap_or(1.0),
                max_ms: or_zero(retry.max),
            },
        },
        jitter_permille: (retry.jitter * 1000.0).round() as u16,
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
            delays: stored_delays(&wanted.retry),
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
