//! Setting and changing the policy of a queue.

use serde::{Deserialize, Serialize};

use super::policy::PolicyDetails;
use crate::limits::ConfigurableLimits;
use crate::v1::checks::check_lease;
use crate::v1::field_change::FieldChange;
use crate::v1::input::{CheckedRequest, changed_object};
use crate::v1::problem::InvalidRequest;
use crate::v1::retry::{RetryDetails, RetryPolicyBody};
use crate::v1::values::{DurationMs, MaxAttempts, Timestamp};

/// A policy, or a change of it. `PUT` replaces the policy: what is absent has its default. `PATCH` merges as in RFC 7396:
/// what is absent stays as it is. In both, `null` stands for the default.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct PolicyBody {
    /// How long a worker may hold a job without extending its lease: 60 s by default.
    #[serde(default, skip_serializing_if = "FieldChange::is_kept")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<DurationMs>))]
    pub lease: FieldChange<DurationMs>,
    /// When failed jobs are retried: 1 s, doubled up to 1 h, jitter 0.1, and 10 attempts by default.
    #[serde(
        default,
        deserialize_with = "changed_object",
        skip_serializing_if = "FieldChange::is_kept"
    )]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<RetryChange>))]
    pub retry: FieldChange<RetryChange>,
    /// How long finished jobs stay with their keys: 0 by default.
    #[serde(default, skip_serializing_if = "FieldChange::is_kept")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<DurationMs>))]
    pub retain: FieldChange<DurationMs>,
    /// Whether no jobs are delivered: `false` by default.
    #[serde(default, skip_serializing_if = "FieldChange::is_kept")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<bool>))]
    pub paused: FieldChange<bool>,
    /// When deliveries continue. Pauses the queue if `paused` is absent; `null` for a pause without an end.
    #[serde(default, skip_serializing_if = "FieldChange::is_kept")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<Timestamp>))]
    pub paused_until: FieldChange<Timestamp>,
    /// Whether publishes are rejected: `false` by default.
    #[serde(default, skip_serializing_if = "FieldChange::is_kept")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<bool>))]
    pub closed: FieldChange<bool>,
    /// The most jobs that are not done yet; `null` for no limit.
    #[serde(default, skip_serializing_if = "FieldChange::is_kept")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<u64>, minimum = 1))]
    pub max_jobs: FieldChange<u64>,
    /// The most jobs that are leased at a time; `null` for no limit.
    #[serde(default, skip_serializing_if = "FieldChange::is_kept")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<u64>, minimum = 1))]
    pub max_running: FieldChange<u64>,
    /// How long dead jobs are kept; `null` for ever.
    #[serde(default, skip_serializing_if = "FieldChange::is_kept")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<DurationMs>))]
    pub keep_dead: FieldChange<DurationMs>,
}

/// A retry policy, or a change of it. Delays are given in one of the ways of `RetryPolicyBody`, and are replaced as a
/// whole; `null` for any of them stands for the default delays.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct RetryChange {
    /// After how many failed attempts a job is dead.
    #[serde(default, skip_serializing_if = "FieldChange::is_kept")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<MaxAttempts>))]
    pub max_attempts: FieldChange<MaxAttempts>,
    /// The delays before each retry, 1 to 16; the last one repeats.
    #[serde(default, skip_serializing_if = "FieldChange::is_kept")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<Vec<DurationMs>>))]
    pub delays: FieldChange<Vec<DurationMs>>,
    /// The delay before every retry.
    #[serde(default, skip_serializing_if = "FieldChange::is_kept")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<DurationMs>))]
    pub every: FieldChange<DurationMs>,
    /// The delay before the first retry; the following ones grow.
    #[serde(default, skip_serializing_if = "FieldChange::is_kept")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<DurationMs>))]
    pub first: FieldChange<DurationMs>,
    /// By what each delay is multiplied to obtain the next one, from 1 to 1000.
    #[serde(default, skip_serializing_if = "FieldChange::is_kept")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<f64>))]
    pub factor: FieldChange<f64>,
    /// The longest delay of a policy with `first`.
    #[serde(default, skip_serializing_if = "FieldChange::is_kept")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<DurationMs>))]
    pub max: FieldChange<DurationMs>,
    /// The random part of each delay, from 0 to 1.
    #[serde(default, skip_serializing_if = "FieldChange::is_kept")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<f64>))]
    pub jitter: FieldChange<f64>,
}

impl RetryChange {
    fn values(&self) -> RetryPolicyBody {
        RetryPolicyBody {
            max_attempts: self.max_attempts.value().copied(),
            delays: self.delays.value().cloned(),
            every: self.every.value().copied(),
            first: self.first.value().copied(),
            factor: self.factor.value().copied(),
            max: self.max.value().copied(),
            jitter: self.jitter.value().copied(),
        }
    }

    fn resets_delays(&self) -> bool {
        self.delays == FieldChange::Reset
            || self.every == FieldChange::Reset
            || self.first == FieldChange::Reset
            || self.factor == FieldChange::Reset
            || self.max == FieldChange::Reset
    }

    fn apply_to(&self, current: &RetryDetails) -> Result<RetryDetails, InvalidRequest> {
        let default = RetryDetails::default();
        let mut base = current.clone();
        if self.resets_delays() {
            base = base.with_delays_of(&default);
        }
        if self.max_attempts == FieldChange::Reset {
            base.max_attempts = default.max_attempts;
        }
        if self.jitter == FieldChange::Reset {
            base.jitter = default.jitter;
        }
        self.values().complete(&base)
    }
}

impl PolicyBody {
    /// A pause that begins lasts until the queue is resumed, and not until the end of an earlier pause, which may be over.
    fn end_of_pause(&self, current: &PolicyDetails) -> Option<Timestamp> {
        match (&self.paused, &self.paused_until) {
            (FieldChange::Set(true), FieldChange::Keep) => None,
            (_, paused_until) => paused_until.apply_to_option(current.paused_until),
        }
    }

    /// The policy after the change. For `PUT`, `current` is the default policy.
    ///
    /// # Errors
    /// A field that does not fit the policy that would result. What [`CheckedRequest::check`] finds is not checked.
    pub fn apply_to(&self, current: &PolicyDetails) -> Result<PolicyDetails, InvalidRequest> {
        let default = PolicyDetails::default();
        let retry = match &self.retry {
            FieldChange::Keep => current.retry.clone(),
            FieldChange::Reset => default.retry,
            FieldChange::Set(change) => {
                let changed = change.apply_to(&current.retry);
                changed.map_err(|invalid| invalid.inside("retry"))?
            }
        };
        let paused = match (&self.paused, &self.paused_until) {
            (FieldChange::Keep, FieldChange::Set(_)) => true,
            _ => self.paused.apply(current.paused, default.paused),
        };
        if !paused && self.paused_until.value().is_some() {
            let detail = "paused is false, but paused_until is set; leave one of them out";
            return Err(InvalidRequest::of_field("paused_until", detail));
        }
        Ok(PolicyDetails {
            lease: self.lease.apply(current.lease, default.lease),
            retry,
            retain: self.retain.apply(current.retain, default.retain),
            paused,
            paused_until: self.end_of_pause(current).filter(|_| paused),
            closed: self.closed.apply(current.closed, default.closed),
            max_jobs: self.max_jobs.apply_to_option(current.max_jobs),
            max_running: self.max_running.apply_to_option(current.max_running),
            keep_dead: self.keep_dead.apply_to_option(current.keep_dead),
        })
    }
}

impl CheckedRequest for PolicyBody {
    fn check(&self, limits: &ConfigurableLimits) -> Result<(), InvalidRequest> {
        check_lease(self.lease.value().copied())?;
        if let FieldChange::Set(retry) = &self.retry {
            let checked = retry.values().check();
            checked.map_err(|invalid| invalid.inside("retry"))?;
        }
        if self
            .retain
            .value()
            .is_some_and(|retain| retain.as_ms() > limits.retain_ms)
        {
            let detail = format!("retain must be at most {} ms", limits.retain_ms);
            return Err(InvalidRequest::of_field("retain", detail));
        }
        if self.max_jobs.value() == Some(&0) {
            let detail =
                "max_jobs must be at least 1; use closed to stop a queue, null for no limit";
            return Err(InvalidRequest::of_field("max_jobs", detail));
        }
        if self.max_running.value() == Some(&0) {
            let detail =
                "max_running must be at least 1; use paused to stop deliveries, null for no limit";
            return Err(InvalidRequest::of_field("max_running", detail));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
