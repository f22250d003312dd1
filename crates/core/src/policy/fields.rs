//! The fields of a policy, their defaults and bounds.

use serde::{Deserialize, Serialize};

use super::bounds::{InvalidPolicy, within, within_ms};
use super::groups::GroupPolicy;
use super::rate::Rate;
use super::retry::RetryPolicy;
use crate::limits::{
    DURATION_MS_MAX, KEEP_DEAD_MS_MIN, LEASE_MS_MAX, LEASE_MS_MIN, MAX_JOBS_MAX, MAX_RUNNING_MAX,
    RETAIN_MS_MAX,
};
use crate::v1::values::{LimitNameText, Timestamp};

/// The policy of a queue, complete: fields that were not set have their defaults.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Policy {
    /// How long a worker may hold a job without extending its lease: 60 s by default.
    #[cfg_attr(feature = "openapi", schema(value_type = crate::openapi::answer::AnswerDuration))]
    pub lease_ms: u64,
    /// When failed jobs are retried.
    pub retry: RetryPolicy,
    /// How long finished jobs stay with their keys: 0 by default.
    #[cfg_attr(feature = "openapi", schema(value_type = crate::openapi::answer::AnswerDuration))]
    pub retain_ms: u64,
    /// Whether no jobs are delivered. Publishes, timers and acks continue.
    pub paused: bool,
    /// When deliveries continue. `null` for a pause without an end.
    #[cfg_attr(feature = "openapi", schema(required = true))]
    pub paused_until: Option<Timestamp>,
    /// Whether publishes are rejected with `queue_closed`.
    pub closed: bool,
    /// The most jobs that are not done yet; beyond it publishes are rejected with `queue_full`. `null` for no limit.
    #[cfg_attr(feature = "openapi", schema(required = true))]
    pub max_jobs: Option<u64>,
    /// The most jobs that are leased at a time; others stay ready until one of these ends. `null` for no limit.
    #[cfg_attr(feature = "openapi", schema(required = true))]
    pub max_running: Option<u64>,
    /// Limits of each group of jobs.
    #[serde(default)]
    #[cfg_attr(feature = "openapi", schema(required = true))]
    pub groups: GroupPolicy,
    /// How many jobs are delivered in a time; others stay ready. `null` for no limit.
    #[serde(default)]
    #[cfg_attr(feature = "openapi", schema(required = true))]
    pub rate: Option<Rate>,
    /// The limit of the namespace that the queue shares with all queues whose policies name it. `null` for none.
    #[serde(default)]
    #[cfg_attr(feature = "openapi", schema(required = true))]
    pub limit: Option<LimitNameText>,
    /// How long dead jobs are kept. `null` for ever.
    #[serde(default)]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<crate::openapi::answer::AnswerDuration>, required = true))]
    pub keep_dead_ms: Option<u64>,
}

impl Default for Policy {
    fn default() -> Self {
        Self {
            lease_ms: 60_000,
            retry: RetryPolicy::default(),
            retain_ms: 0,
            paused: false,
            paused_until: None,
            closed: false,
            max_jobs: None,
            max_running: None,
            groups: GroupPolicy::default(),
            rate: None,
            limit: None,
            keep_dead_ms: None,
        }
    }
}

impl Policy {
    /// Whether deliveries are paused at this instant.
    pub fn is_paused_at(&self, now: Timestamp) -> bool {
        self.paused && self.paused_until.is_none_or(|until| now < until)
    }

    /// Checks the bounds of all values.
    ///
    /// # Errors
    /// A value is out of its bounds. The error names the first one.
    pub fn check(&self) -> Result<(), InvalidPolicy> {
        within_ms("lease_ms", self.lease_ms, LEASE_MS_MIN, LEASE_MS_MAX)?;
        self.retry.check()?;
        within_ms("retain_ms", self.retain_ms, 0, RETAIN_MS_MAX)?;
        if let Some(end) = self.paused_until {
            let (first, last) = (
                Timestamp::saturating(1),
                Timestamp::saturating(DURATION_MS_MAX),
            );
            within("paused_until", end, first, last)?;
        }
        if let Some(jobs) = self.max_jobs {
            within("max_jobs", jobs, 1, MAX_JOBS_MAX)?;
        }
        if let Some(jobs) = self.max_running {
            within("max_running", jobs, 1, MAX_RUNNING_MAX)?;
        }
        self.groups.check()?;
        self.rate.map_or(Ok(()), Rate::check)?;
        match self.keep_dead_ms {
            Some(kept_ms) => within_ms("keep_dead_ms", kept_ms, KEEP_DEAD_MS_MIN, DURATION_MS_MAX),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::extension::RetrySteps;

    #[test]
    fn the_defaults_are_the_documented_ones() {
        let policy = Policy::default();
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
        assert!(!policy.paused);
    }

    #[test]
    fn values_out_of_their_bounds_are_named() {
        let rejected = |change: fn(&mut Policy)| {
            let mut policy = Policy::default();
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
            rejected(|policy| policy.paused_until = Some(Timestamp::MAX)),
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
            let policy = Policy {
                max_running: Some(jobs),
                ..Policy::default()
            };
            let error = policy.check().unwrap_err();
            assert_eq!(error.field, "max_running", "{jobs}");
            let groups = GroupPolicy {
                max_running: Some(jobs),
            };
            let policy = Policy {
                groups,
                ..Policy::default()
            };
            let error = policy.check().unwrap_err();
            assert_eq!(error.field, "groups.max_running", "{jobs}");
        }
        for (jobs, per_ms, field) in [(0, 1000, "rate.jobs"), (1, 99, "rate.per_ms")] {
            let policy = Policy {
                rate: Some(Rate { jobs, per_ms }),
                ..Policy::default()
            };
            assert_eq!(policy.check().unwrap_err().field, field);
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
            let mut policy = Policy::default();
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
    fn answers_are_complete_and_in_ms() {
        let expected = json!({
            "lease_ms": 60_000,
            "retry": {
                "max_attempts": 10,
                "first_ms": 1_000,
                "factor": 2.0,
                "max_ms": 3_600_000,
                "jitter": 0.1,
            },
            "retain_ms": 0,
            "paused": false,
            "paused_until": null,
            "closed": false,
            "max_jobs": null,
            "max_running": null,
            "groups": {"max_running": null},
            "rate": null,
            "limit": null,
            "keep_dead_ms": null,
        });
        let policy = Policy::default();
        assert_eq!(serde_json::to_value(&policy).unwrap(), expected);
        assert_eq!(serde_json::from_value::<Policy>(expected).unwrap(), policy);
    }

    #[test]
    fn the_text_of_an_answer_has_one_order() {
        let text = r#"{"lease_ms":30000,"retry":{"max_attempts":3,"delays_ms":[1000,5000],"jitter":0.25},"retain_ms":1000,"paused":true,"paused_until":"2026-11-21T12:30:00.000Z","closed":true,"max_jobs":5,"max_running":2,"groups":{"max_running":1},"rate":{"jobs":100,"per_ms":1000},"limit":"smtp","keep_dead_ms":60000}"#;
        let policy: Policy = serde_json::from_str(text).unwrap();
        assert_eq!(serde_json::to_string(&policy).unwrap(), text);
    }

    #[test]
    fn a_pause_ends_at_its_instant() {
        let at = |text: &str| text.parse::<Timestamp>().unwrap();
        let noon = at("2026-11-21T12:00:00Z");
        let mut policy = Policy::default();
        assert!(!policy.is_paused_at(noon));
        policy.paused = true;
        assert!(policy.is_paused_at(Timestamp::MAX));
        policy.paused_until = Some(noon);
        assert!(policy.is_paused_at(at("2026-11-21T11:59:59.999Z")));
        assert!(!policy.is_paused_at(noon));
    }
}
