//! The retry policy: delays and a number of attempts.

use super::bounds::{InvalidPolicy, within};
use crate::extension::{RETRY_DELAYS_MAX, RetryDelays};

/// Maximum of a delay, in ms: 30 d.
const DELAY_MS_MAX: u64 = 30 * 24 * 60 * 60 * 1000;
/// Maximum of [`RetryPolicy::max_attempts`]: a record has 12 bits for the number of failures.
const ATTEMPTS_MAX: u16 = 4095;

/// When failed jobs are retried, and how often.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RetryPolicy {
    /// The delays, at least one. Default: 1 s, doubled each time, up to 1 h, with a jitter of 100 thousandths.
    pub delays: RetryDelays,
    /// The number of attempts after which a job is dead, at least 1. Default: 10.
    pub max_attempts: u16,
}

impl Default for RetryPolicy {
    fn default() -> Self {
        Self {
            delays: RetryDelays {
                steps_ms: doubled(1000, 3_600_000),
                jitter_permille: 100,
            },
            max_attempts: 10,
        }
    }
}

impl RetryPolicy {
    /// Checks the bounds of all values.
    pub(super) fn check(&self) -> Result<(), InvalidPolicy> {
        let delays = &self.delays.steps_ms;
        let are_valid = delays.iter().all(|delay_ms| *delay_ms <= DELAY_MS_MAX);
        if !are_valid || !(1..=RETRY_DELAYS_MAX).contains(&delays.len()) {
            return Err(InvalidPolicy {
                field: "retry.delays_ms",
                bounds: format!("1 to {RETRY_DELAYS_MAX} integers from 0 to {DELAY_MS_MAX}"),
            });
        }
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

/// Delays from `first_ms`, each twice the one before, up to and including `max_ms`.
fn doubled(first_ms: u64, max_ms: u64) -> Vec<u64> {
    let below_max = |delay_ms: &u64| *delay_ms < max_ms;
    let doubling = std::iter::successors(Some(first_ms), |delay_ms| Some(delay_ms * 2));
    doubling.take_while(below_max).chain([max_ms]).collect()
}
