//! The policy of a queue: the defaults of its jobs, and what the queue accepts and delivers.

use serde::{Deserialize, Serialize};

use crate::v1::retry::RetryDetails;
use crate::v1::values::{DurationMs, Timestamp, in_ms};

const LEASE: DurationMs = DurationMs::saturating(60_000);

/// The policy of a queue, complete: what was not set has its default.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct PolicyDetails {
    /// How long a worker may hold a job without extending its lease: 60 s by default.
    #[serde(rename = "lease_ms", with = "in_ms")]
    #[cfg_attr(feature = "openapi", schema(value_type = crate::openapi::AnswerDuration))]
    pub lease: DurationMs,
    /// When failed jobs are retried.
    pub retry: RetryDetails,
    /// How long finished jobs stay with their keys: 0 by default.
    #[serde(rename = "retain_ms", with = "in_ms")]
    #[cfg_attr(feature = "openapi", schema(value_type = crate::openapi::AnswerDuration))]
    pub retain: DurationMs,
    /// Whether no jobs are delivered. Publishes, timers and acks continue.
    pub paused: bool,
    /// When deliveries continue. `null` for a pause without an end.
    #[cfg_attr(feature = "openapi", schema(value_type = Option<crate::openapi::AnswerTimestamp>, required = true))]
    pub paused_until: Option<Timestamp>,
    /// Whether publishes are rejected with `queue_closed`.
    pub closed: bool,
    /// The most jobs that are not done yet; beyond it publishes are rejected with `queue_full`. `null` for no limit.
    #[cfg_attr(feature = "openapi", schema(required = true))]
    pub max_jobs: Option<u64>,
    /// The most jobs that are leased at a time; others stay ready until one of these ends. `null` for no limit.
    #[cfg_attr(feature = "openapi", schema(required = true))]
    pub max_running: Option<u64>,
    /// How long dead jobs are kept. `null` for ever.
    #[serde(rename = "keep_dead_ms", default, with = "in_ms")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<crate::openapi::AnswerDuration>, required = true))]
    pub keep_dead: Option<DurationMs>,
}

impl Default for PolicyDetails {
    fn default() -> Self {
        Self {
            lease: LEASE,
            retry: RetryDetails::default(),
            retain: DurationMs::ZERO,
            paused: false,
            paused_until: None,
            closed: false,
            max_jobs: None,
            max_running: None,
            keep_dead: None,
        }
    }
}

impl PolicyDetails {
    /// Whether deliveries are paused at this instant.
    #[must_use]
    pub fn is_paused_at(&self, now: Timestamp) -> bool {
        self.paused && self.paused_until.is_none_or(|until| now < until)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

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
            "keep_dead_ms": null,
        });
        let policy = PolicyDetails::default();
        assert_eq!(serde_json::to_value(&policy).unwrap(), expected);
        assert_eq!(
            serde_json::from_value::<PolicyDetails>(expected).unwrap(),
            policy
        );
    }

    #[test]
    fn the_text_of_an_answer_has_one_order() {
        let text = r#"{"lease_ms":30000,"retry":{"max_attempts":3,"delays_ms":[1000,5000],"jitter":0.25},"retain_ms":1000,"paused":true,"paused_until":"2026-11-21T12:30:00.000Z","closed":true,"max_jobs":5,"max_running":2,"keep_dead_ms":60000}"#;
        let policy: PolicyDetails = serde_json::from_str(text).unwrap();
        assert_eq!(serde_json::to_string(&policy).unwrap(), text);
    }

    #[test]
    fn a_pause_ends_at_its_instant() {
        let at = |text: &str| text.parse::<Timestamp>().unwrap();
        let noon = at("2026-11-21T12:00:00Z");
        let mut policy = PolicyDetails::default();
        assert!(!policy.is_paused_at(noon));
        policy.paused = true;
        assert!(policy.is_paused_at(Timestamp::MAX));
        policy.paused_until = Some(noon);
        assert!(policy.is_paused_at(at("2026-11-21T11:59:59.999Z")));
        assert!(!policy.is_paused_at(noon));
    }
}
