//! Policies as JSON: what `GET` answers can be sent back with `PUT`.

use serde::Serialize;
use serde_json::{Map, Value};
use tidegate_core::v1::values::Timestamp;
use tidegate_core::{InvalidPolicy, Pause, QueuePolicy, RetryPolicy, RetrySteps};

/// The most characters of an unknown field that an error shows.
const SHOWN_MAX: usize = 64;

/// Why a body is no policy.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum BadPolicyBody {
    /// The body is not a JSON object, or longer than its limit.
    #[error("the body should be a JSON object with fields of a policy")]
    NotAnObject,
    /// A policy has no such field.
    #[error(
        "unknown field {0:?}: the fields are lease_ms, retry (with delays_ms, or first_ms, factor and max_ms; jitter, max_attempts), retain_ms, paused, paused_until, closed, max_jobs, max_running, keep_dead_ms"
    )]
    UnknownField(String),
    /// The value of a field has the wrong type.
    #[error("{field} should be {expected}, or null for its default")]
    WrongType {
        field: &'static str,
        expected: &'static str,
    },
    /// The pause has an end, but there is none.
    #[error("paused is false, but paused_until is set: leave one of them out")]
    EndWithoutPause,
    /// A value is out of its bounds.
    #[error(transparent)]
    OutOfBounds(#[from] InvalidPolicy),
}

/// All fields of a policy.
#[derive(Debug, Serialize)]
pub(super) struct PolicyView {
    lease_ms: u64,
    retry: RetryView,
    retain_ms: u64,
    paused: bool,
    paused_until: Option<String>,
    closed: bool,
    max_jobs: Option<u64>,
    max_running: Option<u64>,
    keep_dead_ms: Option<u64>,
}

#[derive(Debug, Serialize)]
struct RetryView {
    #[serde(skip_serializing_if = "Option::is_none")]
    delays_ms: Option<Vec<u64>>,
    #[serde(flatten)]
    growing: Option<GrowingView>,
    jitter: f64,
    max_attempts: u16,
}

#[derive(Debug, Serialize)]
struct GrowingView {
    first_ms: u64,
    factor: f64,
    max_ms: u64,
}

impl From<&RetryPolicy> for RetryView {
    fn from(retry: &RetryPolicy) -> Self {
        let (delays_ms, growing) = match retry.delays.steps.clone() {
            RetrySteps::Listed(delays) => (Some(delays), None),
            RetrySteps::Growing {
                first_ms,
                factor,
                max_ms,
            } => {
                let growing = GrowingView {
                    first_ms,
                    factor,
                    max_ms,
                };
                (None, Some(growing))
            }
        };
        Self {
            delays_ms,
            growing,
            jitter: f64::from(retry.delays.jitter_permille) / 1000.0,
            max_attempts: retry.max_attempts,
        }
    }
}

impl From<&QueuePolicy> for PolicyView {
    fn from(policy: &QueuePolicy) -> Self {
        Self {
            lease_ms: policy.lease_ms,
            retry: RetryView::from(&policy.retry),
            retain_ms: policy.retain_ms,
            paused: policy.pause != Pause::No,
            paused_until: match policy.pause {
                Pause::Until(end_ms) => Some(Timestamp::saturating(end_ms).to_string()),
                Pause::No | Pause::UntilResumed => None,
            },
            closed: policy.closed,
            max_jobs: policy.max_jobs,
            max_running: policy.max_running,
            keep_dead_ms: policy.keep_dead_ms,
        }
    }
}

/// The policy `base` with the fields of a JSON object. A field that is null gets its default.
///
/// # Errors
/// The body is not such an object, or the policy would be invalid.
pub(super) fn merge(base: QueuePolicy, body: &[u8]) -> Result<QueuePolicy, BadPolicyBody> {
    let fields: Map<String, Value> =
        serde_json::from_slice(body).map_err(|_| BadPolicyBody::NotAnObject)?;
    let default = QueuePolicy::default();
    let mut policy = base;
    let (mut paused, mut end) = (None, None);
    for (name, value) in &fields {
        match name.as_str() {
            "lease_ms" => policy.lease_ms = integer("lease_ms", value)?.unwrap_or(default.lease_ms),
            "retry" => policy.retry = merge_retry(policy.retry, value)?,
            "retain_ms" => {
                policy.retain_ms = integer("retain_ms", value)?.unwrap_or(default.retain_ms);
            }
            "paused" => paused = Some(flag("paused", value)?),
            "paused_until" => end = Some(instant_of("paused_until", value)?),
            "closed" => policy.closed = flag("closed", value)?,
            "max_jobs" => policy.max_jobs = integer("max_jobs", value)?,
            "max_running" => policy.max_running = integer("max_running", value)?,
            "keep_dead_ms" => policy.keep_dead_ms = integer("keep_dead_ms", value)?,
            _ => return Err(unknown(name)),
        }
    }
    policy.pause = merge_pause(policy.pause, paused, end)?;
    policy.check()?;
    Ok(policy)
}

/// The pause that `paused` and `paused_until` of a body request; `None` = the body does not have the field, `Some(None)` =
/// it is null.
fn merge_pause(
    base: Pause,
    paused: Option<bool>,
    end: Option<Option<u64>>,
) -> Result<Pause, BadPolicyBody> {
    match (paused, end) {
        (Some(false), Some(Some(_))) => Err(BadPolicyBody::EndWithoutPause),
        (Some(false), _) => Ok(Pause::No),
        (_, Some(Some(end_ms))) => Ok(Pause::Until(end_ms)),
        // Not until the end of an earlier pause, which may be over.
        (Some(true), _) => Ok(Pause::UntilResumed),
        (None, Some(None)) if base != Pause::No => Ok(Pause::UntilResumed),
        (None, _) => Ok(base),
    }
}

fn merge_retry(base: RetryPolicy, value: &Value) -> Result<RetryPolicy, BadPolicyBody> {
    let default = RetryPolicy::default();
    let fields = match value {
        Value::Null => return Ok(default),
        Value::Object(fields) => fields,
        _ => return Err(wrong_type("retry", "an object")),
    };
    let mut retry = base;
    let is_set = |name: &str| fields.get(name).is_some_and(|value| !value.is_null());
    if is_set("delays_ms") && ["first_ms", "factor", "max_ms"].into_iter().any(is_set) {
        return Err(wrong_type(
            "retry",
            "an object with delays_ms, or with first_ms, factor and max_ms",
        ));
    }
    for (name, value) in fields {
        match name.as_str() {
            "delays_ms" => {
                let listed = delays(value)?.map(RetrySteps::Listed);
                retry.delays.steps = listed.unwrap_or_else(|| default.delays.steps.clone());
            }
            "first_ms" | "factor" | "max_ms" if is_set("delays_ms") => {}
            "first_ms" | "factor" | "max_ms" => merge_growth(&mut retry.delays.steps, name, value)?,
            "jitter" => {
                retry.delays.jitter_permille =
                    jitter(value)?.unwrap_or(default.delays.jitter_permille)
            }
            "max_attempts" => {
                let attempts = integer("retry.max_attempts", value)?;
                // A number that is too large is out of bounds.
                retry.max_attempts = attempts.map_or(default.max_attempts, |attempts| {
                    u16::try_from(attempts).unwrap_or(u16::MAX)
                });
            }
            _ => return Err(unknown(&format!("retry.{name}"))),
        }
    }
    Ok(retry)
}

/// Changes one field of delays that grow. Delays that did not, grow as the default does otherwise.
fn merge_growth(steps: &mut RetrySteps, name: &str, value: &Value) -> Result<(), BadPolicyBody> {
    let default = RetryPolicy::default().delays.steps;
    if matches!(steps, RetrySteps::Listed(_)) {
        *steps = default.clone();
    }
    let (
        RetrySteps::Growing {
            first_ms,
            factor,
            max_ms,
        },
        RetrySteps::Growing {
            first_ms: default_first_ms,
            factor: default_factor,
            max_ms: default_max_ms,
        },
    ) = (steps, default)
    else {
        return Ok(());
    };
    match name {
        "first_ms" => *first_ms = integer("retry.first_ms", value)?.unwrap_or(default_first_ms),
        "max_ms" => *max_ms = integer("retry.max_ms", value)?.unwrap_or(default_max_ms),
        _ if value.is_null() => *factor = default_factor,
        _ => {
            let number = value.as_f64();
            *factor = number.ok_or_else(|| wrong_type("retry.factor", "a number"))?;
        }
    }
    Ok(())
}

fn delays(value: &Value) -> Result<Option<Vec<u64>>, BadPolicyBody> {
    let error = || wrong_type("retry.delays_ms", "an array of integers");
    match value {
        Value::Null => Ok(None),
        Value::Array(delays) => {
            let delays = delays.iter().map(Value::as_u64);
            delays.collect::<Option<_>>().map(Some).ok_or_else(error)
        }
        _ => Err(error()),
    }
}

/// In thousandths.
fn jitter(value: &Value) -> Result<Option<u16>, BadPolicyBody> {
    let error = || {
        wrong_type(
            "retry.jitter",
            "a number from 0 to 1 with at most three decimals",
        )
    };
    if value.is_null() {
        return Ok(None);
    }
    let permille = value.as_f64().ok_or_else(error)? * 1000.0;
    let is_valid = (0.0..=1000.0).contains(&permille) && (permille - permille.round()).abs() < 1e-6;
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "it is from 0 to 1000"
    )]
    is_valid
        .then(|| Some(permille.round() as u16))
        .ok_or_else(error)
}

fn integer(field: &'static str, value: &Value) -> Result<Option<u64>, BadPolicyBody> {
    match value {
        Value::Null => Ok(None),
        value => {
            let number = value.as_u64();
            number
                .map(Some)
                .ok_or_else(|| wrong_type(field, "an integer"))
        }
    }
}

/// The defaults of flags are false.
fn flag(field: &'static str, value: &Value) -> Result<bool, BadPolicyBody> {
    match value {
        Value::Null => Ok(false),
        Value::Bool(flag) => Ok(*flag),
        _ => Err(wrong_type(field, "true or false")),
    }
}

fn instant_of(field: &'static str, value: &Value) -> Result<Option<u64>, BadPolicyBody> {
    let expected = "an instant such as \"2026-11-21T12:30:00Z\", or an integer of ms since 1970";
    let instant_ms = match value {
        Value::Null => return Ok(None),
        Value::String(text) => text.parse().ok().map(Timestamp::as_ms),
        value => value.as_u64(),
    };
    instant_ms
        .map(Some)
        .ok_or_else(|| wrong_type(field, expected))
}

const fn wrong_type(field: &'static str, expected: &'static str) -> BadPolicyBody {
    BadPolicyBody::WrongType { field, expected }
}

fn unknown(name: &str) -> BadPolicyBody {
    BadPolicyBody::UnknownField(name.chars().take(SHOWN_MAX).collect())
}

#[cfg(test)]
mod tests;
