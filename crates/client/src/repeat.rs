//! How often and when requests are repeated.

use std::time::Duration;

use backon::{BackoffBuilder, ExponentialBackoff, ExponentialBuilder};

use crate::error::Error;

/// How often a request that failed is repeated, and the delays between.
///
/// The first delay is doubled up to the longest one; each is made longer at random, up to twice. If the server says
/// `Retry-After`, the request is not repeated earlier; if that is later than [`RepeatLimits::RETRY_AFTER_MAX`], the
/// error is returned.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RepeatLimits {
    /// The most repetitions. 0 for none. Default: 7.
    pub repetitions: usize,
    /// The first delay. Default: 100 ms.
    pub first_delay: Duration,
    /// The longest delay. Default: 5 s.
    pub longest_delay: Duration,
}

impl Default for RepeatLimits {
    fn default() -> Self {
        Self {
            repetitions: 7,
            first_delay: Duration::from_millis(100),
            longest_delay: Duration::from_secs(5),
        }
    }
}

impl RepeatLimits {
    /// The longest `Retry-After` that is waited for.
    pub const RETRY_AFTER_MAX: Duration = Duration::from_secs(30);

    /// For calls that are repeated as long as something else allows it.
    pub(crate) const fn endless(first_delay: Duration, longest_delay: Duration) -> Self {
        Self {
            repetitions: usize::MAX,
            first_delay,
            longest_delay,
        }
    }

    pub(crate) fn delays(&self) -> RepeatDelays {
        let builder = ExponentialBuilder::new()
            .with_min_delay(self.first_delay)
            .with_max_delay(self.longest_delay)
            .with_jitter();
        let builder = match self.repetitions {
            usize::MAX => builder.without_max_times(),
            most => builder.with_max_times(most),
        };
        RepeatDelays(builder.build())
    }
}

/// The delays before the repetitions of one request.
#[derive(Debug)]
pub(crate) struct RepeatDelays(ExponentialBackoff);

impl RepeatDelays {
    /// The delay after this error; `None` if the request is not repeated any more.
    pub(crate) fn next_after(&mut self, error: &Error) -> Option<Duration> {
        let delay = self.0.next()?;
        match error.retry_after() {
            Some(after) if after > RepeatLimits::RETRY_AFTER_MAX => None,
            Some(after) => Some(delay.max(after)),
            None => Some(delay),
        }
    }
}
