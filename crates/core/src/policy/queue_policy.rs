//! The fields of a policy, their defaults and bounds.

use super::bounds::{InvalidPolicy, within};
use super::retry::RetryPolicy;
use crate::limits::{
    DURATION_MS_MAX, KEEP_DEAD_MS_MIN, LEASE_MS_MAX, LEASE_MS_MIN, MAX_JOBS_MAX, MAX_RUNNING_MAX,
    RETAIN_MS_MAX,
};

/// The policy of a queue. A queue without a stored policy has the default one.
///
/// `lease_ms`, `retry`, `retain_ms` and `keep_dead_ms` are stored, and have no effect yet.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct QueuePolicy {
    /// Length of a lease if neither the reserve call nor the job has one, in ms. Default: 60 s.
    pub lease_ms: u64,
    /// When failed jobs are retried, and how often.
    pub retry: RetryPolicy,
    /// How long a finished job stays with its key and result, in ms. Default: 0.
    pub retain_ms: u64,
    /// Whether jobs of the queue are delivered.
    pub pause: Pause,
    /// Whether publishes to the queue are refused.
    pub closed: bool,
    /// The number of jobs that the queue may hold, in all states, dead ones included; `None` = not limited.
    pub max_jobs: Option<u64>,
    /// The number of jobs of the queue that are leased at a time; `None` = not limited.
    pub max_running: Option<u64>,
    /// How long dead jobs are kept, in ms; `None` = for ever.
    pub keep_dead_ms: Option<u64>,
}

/// Whether the jobs of a queue are delivered. Timers and acknowledgements do not depend on it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Pause {
    /// Jobs are delivered.
    #[default]
    No,
    /// No job is delivered until the policy is changed.
    UntilResumed,
    /// No job is delivered until this instant, in ms since 1970 on the clock of Redis.
    Until(u64),
}

impl Default for QueuePolicy {
    fn default() -> Self {
        Self {
            lease_ms: 60_000,
            retry: RetryPolicy::default(),
            retain_ms: 0,
            pause: Pause::No,
            closed: false,
            max_jobs: None,
            max_running: None,
            keep_dead_ms: None,
        }
    }
}

impl QueuePolicy {
    /// Checks the bounds of all values.
    ///
    /// # Errors
    /// A value is out of its bounds. The error names the first one.
    pub fn check(&self) -> Result<(), InvalidPolicy> {
        within("lease_ms", self.lease_ms, LEASE_MS_MIN, LEASE_MS_MAX)?;
        self.retry.check()?;
        within("retain_ms", self.retain_ms, 0, RETAIN_MS_MAX)?;
        if let Pause::Until(end_ms) = self.pause {
            within("paused_until", end_ms, 1, DURATION_MS_MAX)?;
        }
        if let Some(jobs) = self.max_jobs {
            within("max_jobs", jobs, 1, MAX_JOBS_MAX)?;
        }
        if let Some(jobs) = self.max_running {
            within("max_running", jobs, 1, MAX_RUNNING_MAX)?;
        }
        match self.keep_dead_ms {
            Some(kept_ms) => within("keep_dead_ms", kept_ms, KEEP_DEAD_MS_MIN, DURATION_MS_MAX),
            None => Ok(()),
        }
    }
}

impl Pause {
    /// Whether no jobs are delivered at this instant, in ms since 1970.
    #[must_use]
    pub const fn blocks_at(self, now_ms: u64) -> bool {
        match self {
            Self::No => false,
            Self::UntilResumed => true,
            Self::Until(end_ms) => now_ms < end_ms,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::extension::RetrySteps;

    #[test]
    fn the_defaults_are_the_documented_ones() {
        let policy = QueuePolicy::default();
        assert_eq!(policy.check(), Ok(()));
        assert_eq!(policy.lease_ms, 60_000);
        let retry = &policy.retry;
        let doubled = RetrySteps::Growing {
            first_ms: 1000,
            factor: 2.0,
            max_ms: 3_600_000,
        };
        assert_eq!(retry.delays.steps, doubled);
        assert_eq!(
            (retry.delays.jitter_permille, retry.max_attempts),
            (100, 10)
        );
        assert_eq!(policy.pause, Pause::No);
    }

    #[test]
    fn values_out_of_their_bounds_are_named() {
        let rejected = |change: fn(&mut QueuePolicy)| {
            let mut policy = QueuePolicy::default();
            change(&mut policy);
            policy.check().map_err(|error| error.field)
        };
        assert_eq!(rejected(|policy| policy.lease_ms = 99), Err("lease_ms"));
        assert_eq!(rejected(|policy| policy.lease_ms = 100), Ok(()));
        assert_eq!(
            rejected(|policy| policy.lease_ms = LEASE_MS_MAX + 1),
            Err("lease_ms")
        );
        assert_eq!(
            rejected(|policy| policy.retain_ms = RETAIN_MS_MAX + 1),
            Err("retain_ms")
        );
        assert_eq!(
            rejected(|policy| policy.pause = Pause::Until(u64::MAX)),
            Err("paused_until")
        );
        assert_eq!(
            rejected(|policy| policy.max_jobs = Some(0)),
            Err("max_jobs")
        );
        assert_eq!(
            rejected(|policy| policy.max_jobs = Some(u64::MAX)),
            Err("max_jobs")
        );
        for jobs in [0, MAX_RUNNING_MAX + 1] {
            let policy = QueuePolicy {
                max_running: Some(jobs),
                ..QueuePolicy::default()
            };
            let error = policy.check().unwrap_err();
            assert_eq!(error.field, "max_running", "{jobs}");
        }
        assert_eq!(
            rejected(|policy| policy.keep_dead_ms = Some(999)),
            Err("keep_dead_ms")
        );
        assert_eq!(
            rejected(|policy| policy.retry.delays.jitter_permille = 1001),
            Err("retry.jitter")
        );
        assert_eq!(
            rejected(|policy| policy.retry.max_attempts = 0),
            Err("retry.max_attempts")
        );
    }

    #[test]
    fn retry_delays_out_of_their_bounds_are_named() {
        let with_steps = |steps| {
            let mut policy = QueuePolicy::default();
            policy.retry.delays.steps = steps;
            policy.check().map_err(|error| error.field)
        };
        for delays in [vec![], vec![1; 17], vec![u64::MAX]] {
            let listed = with_steps(RetrySteps::Listed(delays));
            assert_eq!(listed, Err("retry.delays_ms"));
        }
        for (first_ms, factor, max_ms, expected) in [
            (1, 1.0, 1, Ok(())),
            (0, 2.0, 1, Err("retry.first_ms")),
            (2, 2.0, 1, Err("retry.max_ms")),
            (1, 2.0, u64::MAX, Err("retry.max_ms")),
            (1, 0.9, 1, Err("retry.factor")),
            (1, f64::NAN, 1, Err("retry.factor")),
        ] {
            let growing = with_steps(RetrySteps::Growing {
                first_ms,
                factor,
                max_ms,
            });
            assert_eq!(growing, expected);
        }
    }

    #[test]
    fn a_pause_ends_at_its_instant() {
        assert!(!Pause::No.blocks_at(0));
        assert!(Pause::UntilResumed.blocks_at(u64::MAX));
        assert!(Pause::Until(10).blocks_at(9));
        assert!(!Pause::Until(10).blocks_at(10));
    }
}
