//! The retry policy: delays and a number of attempts.

use super::bounds::{InvalidPolicy, within};
use crate::extension::{RetryDelays, RetrySteps};
use crate::limits::{ATTEMPTS_MAX, RETRY_DELAY_MS_MAX, RETRY_DELAYS_MAX, RETRY_FACTOR_MAX};

/// When failed jobs are retried, and how often.
#[derive(Debug, Clone, PartialEq, Eq)]
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
            within("retry.first_ms", *first_ms, 1, RETRY_DELAY_MS_MAX)?;
            within("retry.max_ms", *max_ms, *first_ms, RETRY_DELAY_MS_MAX)?;
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
