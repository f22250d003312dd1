//! Setting and changing the policy of a queue.

use serde::{Deserialize, Serialize};

use crate::limits::ConfigurableLimits;
use crate::v1::checks::check_lease;
use crate::v1::field_change::FieldChange;
use crate::v1::input::{CheckedRequest, changed_object};
use crate::v1::problem::InvalidRequest;
use crate::v1::rate::RateChange;
use crate::v1::retry::RetryChange;
use crate::v1::values::{DurationMs, LimitNameText, Timestamp};
use crate::{GroupPolicy, Policy};

/// Limits of each group of jobs of a queue, or a change of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct GroupPolicyChange {
    /// The most jobs of a group that are leased at a time; `null` for no limit.
    #[serde(default, skip_serializing_if = "FieldChange::is_kept")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<u64>, minimum = 1))]
    pub max_running: FieldChange<u64>,
}

impl GroupPolicyChange {
    fn apply_to(self, current: GroupPolicy) -> GroupPolicy {
        GroupPolicy {
            max_running: self.max_running.apply_to_option(current.max_running),
        }
    }
}

/// A policy, or a change of it. `PUT` replaces the policy: absent fields have their defaults. `PATCH` merges as in RFC
/// 7396: absent fields stay as they are. In both, `null` stands for the default.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct PolicyChange {
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
    #[cfg_attr(feature = "openapi", schema(value_type = Option<crate::openapi::answer::RequestTimestamp>))]
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
    /// Limits of each group of jobs; `null` for none.
    #[serde(
        default,
        deserialize_with = "changed_object",
        skip_serializing_if = "FieldChange::is_kept"
    )]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<GroupPolicyChange>))]
    pub groups: FieldChange<GroupPolicyChange>,
    /// How many jobs are delivered in a time; `null` for no limit.
    #[serde(
        default,
        deserialize_with = "changed_object",
        skip_serializing_if = "FieldChange::is_kept"
    )]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<RateChange>))]
    pub rate: FieldChange<RateChange>,
    /// A limit of the namespace, which the queue shares with other queues that name it; `null` for none.
    #[serde(default, skip_serializing_if = "FieldChange::is_kept")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<LimitNameText>))]
    pub limit: FieldChange<LimitNameText>,
    /// How long dead jobs are kept; `null` for ever.
    #[serde(default, skip_serializing_if = "FieldChange::is_kept")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<DurationMs>))]
    pub keep_dead: FieldChange<DurationMs>,
}

impl PolicyChange {
    /// The policy after the change. For `PUT`, `current` is the default policy.
    ///
    /// # Errors
    /// A field that does not fit the resulting policy. The rules of [`CheckedRequest::check`] are not checked.
    pub fn apply_to(&self, current: &Policy) -> Result<Policy, InvalidRequest> {
        let default = Policy::default();
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
        let rate = match &self.rate {
            FieldChange::Keep => current.rate,
            FieldChange::Reset => None,
            FieldChange::Set(change) => {
                let changed = change.apply_to(current.rate);
                Some(changed.map_err(|invalid| invalid.inside("rate"))?)
            }
        };
        let ms = |duration: &DurationMs| duration.as_ms();
        let policy = Policy {
            lease_ms: self.lease.map(ms).apply(current.lease_ms, default.lease_ms),
            retry,
            retain_ms: self
                .retain
                .map(ms)
                .apply(current.retain_ms, default.retain_ms),
            paused,
            paused_until: self.end_of_pause(current).filter(|_| paused),
            closed: self.closed.apply(current.closed, default.closed),
            max_jobs: self.max_jobs.apply_to_option(current.max_jobs),
            max_running: self.max_running.apply_to_option(current.max_running),
            groups: match self.groups {
                FieldChange::Keep => current.groups,
                FieldChange::Reset => default.groups,
                FieldChange::Set(change) => change.apply_to(current.groups),
            },
            rate,
            limit: self.limit.clone().apply_to_option(current.limit.clone()),
            keep_dead_ms: self.keep_dead.map(ms).apply_to_option(current.keep_dead_ms),
        };
        policy.check().map_err(|invalid| {
            // Fields of requests have no unit in their names: durations are text.
            let field = invalid.field.trim_end_matches("_ms");
            InvalidRequest::of_field(field, format!("{field} should be {}", invalid.bounds))
        })?;
        Ok(policy)
    }

    /// A pause that begins lasts until the queue is resumed, and not until the end of an earlier pause, which may be
    /// over.
    fn end_of_pause(&self, current: &Policy) -> Option<Timestamp> {
        match (&self.paused, &self.paused_until) {
            (FieldChange::Set(true), FieldChange::Keep) => None,
            (_, paused_until) => paused_until.apply_to_option(current.paused_until),
        }
    }
}

impl CheckedRequest for PolicyChange {
    fn check(&self, limits: &ConfigurableLimits) -> Result<(), InvalidRequest> {
        check_lease(self.lease.value().copied())?;
        if let FieldChange::Set(retry) = &self.retry {
            let checked = retry.check();
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
        if let FieldChange::Set(rate) = &self.rate {
            rate.check(limits)
                .map_err(|invalid| invalid.inside("rate"))?;
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
        let groups = self.groups.value().copied().unwrap_or_default();
        if groups.max_running.value() == Some(&0) {
            let detail = "groups.max_running must be at least 1; use paused to stop deliveries, null for no limit";
            return Err(InvalidRequest::of_field("groups.max_running", detail));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
