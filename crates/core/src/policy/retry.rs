//! The retry policy: delays and a number of attempts.

use serde::{Deserialize, Serialize};

use super::bounds::{InvalidPolicy, within, within_ms};
use crate::extension::{RetryDelays, RetrySteps};
use crate::limits::{ATTEMPTS_MAX, RETRY_DELAY_MS_MAX, RETRY_DELAYS_MAX, RETRY_FACTOR_MAX};

/// When failed jobs are retried, and how often. As JSON, delays, jitter and attempts are fields of one object.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "RetryFields", into = "RetryFields")]
pub struct RetryPolicy {
    /// The delays. Default: 1 s, doubled each time, up to 1 h, with a jitter of 100 thousandths.
    pub delays: RetryDelays,
    /// The number of attempts after which a job is dead, at least 1. Default: 10.
    pub max_attempts: u16,
}

impl Default for RetryPolicy {
    fn default() -> Self {
        Self {
            delays: RetryDelays {
                steps: RetrySteps::Growing {
                    first_ms: 1000,
                    factor: 2.0,
                    max_ms: 3_600_000,
                },
                jitter_permille: 100,
            },
            max_attempts: 10,
        }
    }
}

/// A complete retry policy. Either `delays_ms` lists the delays, or `first_ms`, `factor` and `max_ms` say how they
/// grow.
#[serde_with::skip_serializing_none]
#[derive(Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
struct RetryFields {
    /// After how many failed attempts a job is dead.
    #[cfg_attr(feature = "openapi", schema(value_type = crate::v1::values::MaxAttempts))]
    max_attempts: u16,
    /// The delays before each retry, 1 to 16; the last one repeats.
    #[cfg_attr(feature = "openapi", schema(value_type = Option<Vec<crate::openapi::answer::AnswerDuration>>))]
    delays_ms: Option<Vec<u64>>,
    /// The delay before the first retry.
    #[cfg_attr(feature = "openapi", schema(value_type = Option<crate::openapi::answer::AnswerDuration>))]
    first_ms: Option<u64>,
    /// The factor from each delay to the next.
    factor: Option<f64>,
    /// The longest delay.
    #[cfg_attr(feature = "openapi", schema(value_type = Option<crate::openapi::answer::AnswerDuration>))]
    max_ms: Option<u64>,
    /// The random part of each delay, from 0 to 1.
    jitter: f64,
}

impl From<RetryPolicy> for RetryFields {
    fn from(policy: RetryPolicy) -> Self {
        let mut fields = Self {
            max_attempts: policy.max_attempts,
            delays_ms: None,
            first_ms: None,
            factor: None,
            max_ms: None,
            jitter: f64::from(policy.delays.jitter_permille) / 1000.0,
        };
        match policy.delays.steps {
            RetrySteps::Listed(delays) => fields.delays_ms = Some(delays),
            RetrySteps::Growing {
                first_ms,
                factor,
                max_ms,
            } => {
                fields.first_ms = Some(first_ms);
                fields.factor = Some(factor);
                fields.max_ms = Some(max_ms);
            }
        }
        fields
    }
}

impl From<RetryFields> for RetryPolicy {
    fn from(fields: RetryFields) -> Self {
        let steps = match fields.delays_ms {
            Some(delays) => RetrySteps::Listed(delays),
            None => RetrySteps::Growing {
                first_ms: fields.first_ms.unwrap_or_default(),
                factor: fields.factor.unwrap_or(1.0),
                max_ms: fields.max_ms.unwrap_or_default(),
            },
        };
        Self {
            delays: RetryDelays {
                steps,
                jitter_permille: (fields.jitter * 1000.0).round() as u16,
            },
            max_attempts: fields.max_attempts,
        }
    }
}

#[cfg(feature = "openapi")]
impl utoipa::PartialSchema for RetryPolicy {
    fn schema() -> utoipa::openapi::RefOr<utoipa::openapi::schema::Schema> {
        RetryFields::schema()
    }
}

#[cfg(feature = "openapi")]
impl utoipa::ToSchema for RetryPolicy {
    fn schemas(
        schemas: &mut Vec<(
            String,
            utoipa::openapi::RefOr<utoipa::openapi::schema::Schema>,
        )>,
    ) {
        RetryFields::schemas(schemas);
    }
}

impl RetryPolicy {
    /// Checks the bounds of all values.
    pub(super) fn check(&self) -> Result<(), InvalidPolicy> {
        check_steps(&self.delays.steps)?;
        if self.delays.jitter_permille > 1000 {
            return Err(InvalidPolicy {
                field: "retry.jitter",
                bounds: "from 0 to 1".to_owned(),
            });
        }
        let attempts = u64::from(self.max_attempts);
        within("retry.max_attempts", attempts, 1, u64::from(ATTEMPTS_MAX))
    }
}

fn check_steps(steps: &RetrySteps) -> Result<(), InvalidPolicy> {
    match steps {
        RetrySteps::Listed(delays) => {
            let are_valid = delays
                .iter()
                .all(|delay_ms| *delay_ms <= RETRY_DELAY_MS_MAX);
            if are_valid && (1..=RETRY_DELAYS_MAX).contains(&delays.len()) {
                return Ok(());
            }
            Err(InvalidPolicy {
                field: "retry.delays_ms",
                bounds: format!("1 to {RETRY_DELAYS_MAX} integers from 0 to {RETRY_DELAY_MS_MAX}"),
            })
        }
        RetrySteps::Growing {
            first_ms,
            factor,
            max_ms,
        } => {
            within_ms("retry.first_ms", *first_ms, 1, RETRY_DELAY_MS_MAX)?;
            within_ms("retry.max_ms", *max_ms, *first_ms, RETRY_DELAY_MS_MAX)?;
            if (1.0..=RETRY_FACTOR_MAX).contains(factor) {
                return Ok(());
            }
            Err(InvalidPolicy {
                field: "retry.factor",
                bounds: format!("from 1 to {RETRY_FACTOR_MAX}"),
            })
        }
    }
}
