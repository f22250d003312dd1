//! The options of a publish.

use serde::{Deserialize, Serialize};

use crate::limits::ConfigurableLimits;
use crate::v1::checks::{check_due, check_lease, check_start_within, check_ttl};
use crate::v1::input::CheckedRequest;
use crate::v1::problem::InvalidRequest;
use crate::v1::retry::{RetryChange, retry_of_job};
use crate::v1::values::{
    DurationMs, IdempotencyKey, JobGroup, JobKey, MaxAttempts, MaxDeliveries, Priority, Timestamp,
};
use crate::{Durability, IfExists};

/// When a job is due.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DueTime {
    /// So much time after it is stored.
    After(DurationMs),
    /// At an instant. The past means now.
    At(Timestamp),
}

/// The options of a publish: parameters of the query, or headers `Tidegate-…`; `retry` is JSON there. A batch has them
/// in each item.
#[serde_with::skip_serializing_none]
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema, utoipa::IntoParams))]
#[serde(deny_unknown_fields)]
#[cfg_attr(feature = "openapi", into_params(parameter_in = Query))]
pub struct JobOptions {
    /// How long the job is delayed. Excludes `run_at`.
    pub delay: Option<DurationMs>,
    /// When the job is due. The past means now. Excludes `delay`.
    #[cfg_attr(feature = "openapi", schema(value_type = Option<crate::openapi::answer::RequestTimestamp>))]
    #[cfg_attr(feature = "openapi", param(value_type = Option<crate::openapi::answer::RequestTimestamp>))]
    pub run_at: Option<Timestamp>,
    /// Ready jobs of a higher priority are delivered first, but every eighth job has a lower one if there is any.
    pub priority: Option<Priority>,
    /// A group, such as a tenant or a user. Ready jobs of a priority are delivered group by group in turn; jobs without a
    /// group are one group. The policy of the queue may limit how many jobs of each group run at a time.
    pub group: Option<JobGroup>,
    /// A key that is unique in the queue.
    pub key: Option<JobKey>,
    /// The rule if a job has the key: `keep` by default.
    pub if_exists: Option<IfExists>,
    /// How long the finished job stays with its key. By default as in the policy of the queue.
    pub retain: Option<DurationMs>,
    /// Makes it safe to repeat the publish: a repetition returns the first job. As a header: `Idempotency-Key`.
    pub idempotency_key: Option<IdempotencyKey>,
    /// The copies that must exist before the publish is answered. By default as set for the namespace.
    pub durability: Option<Durability>,
    /// How long a worker may hold the job without extending its lease, unless the reserve call says something else.
    pub lease: Option<DurationMs>,
    /// After how many failed attempts the job is dead. Excludes `retry.max_attempts`.
    pub max_attempts: Option<MaxAttempts>,
    /// When failed attempts are repeated.
    #[serde(default, deserialize_with = "retry_of_job")]
    pub retry: Option<RetryChange>,
    /// The job is dropped if no worker has started it so long after it was due.
    pub start_within: Option<DurationMs>,
    /// How often the job is delivered at most, as for a job of lmstfy: the last delivery that is not acknowledged makes
    /// it dead. Failures and lost workers are not counted then. Excludes `max_attempts`, `retry` and `start_within`.
    pub max_deliveries: Option<MaxDeliveries>,
    /// How long after its publish the job is deleted, in any state but dead, as a job of lmstfy. Needs
    /// `max_deliveries`, and is not shorter than `delay`.
    pub ttl: Option<DurationMs>,
}

impl JobOptions {
    /// When the job is due.
    pub fn due(&self) -> DueTime {
        match self.run_at {
            Some(instant) => DueTime::At(instant),
            None => DueTime::After(self.delay.unwrap_or_default()),
        }
    }

    /// After how many failed attempts the job is dead, if the options say so.
    pub fn attempts(&self) -> Option<MaxAttempts> {
        let of_policy = || self.retry.as_ref()?.max_attempts.value().copied();
        self.max_attempts.or_else(of_policy)
    }

    /// A job counts deliveries, or failures.
    fn check_deliveries(&self) -> Result<(), InvalidRequest> {
        check_ttl(self.ttl)?;
        if self.max_deliveries.is_none() {
            let detail = "ttl needs max_deliveries; of other jobs start_within limits the time before the first delivery";
            return match self.ttl {
                Some(_) => Err(InvalidRequest::of_field("ttl", detail)),
                None => Ok(()),
            };
        }
        let others = [
            ("max_attempts", self.max_attempts.is_some()),
            ("retry", self.retry.is_some()),
            ("start_within", self.start_within.is_some()),
        ];
        if let Some((name, _)) = others.into_iter().find(|(_, is_set)| *is_set) {
            return Err(InvalidRequest::of_both("max_deliveries", name));
        }
        match (self.ttl, self.delay) {
            (Some(ttl), Some(delay)) if ttl < delay => {
                let detail = "ttl counts from the publish and must not be shorter than delay: the job would be deleted before it is due";
                Err(InvalidRequest::of_field("ttl", detail))
            }
            _ => Ok(()),
        }
    }
}

impl CheckedRequest for JobOptions {
    fn check(&self, limits: &ConfigurableLimits) -> Result<(), InvalidRequest> {
        check_due(self.delay, self.run_at)?;
        if self.if_exists.is_some() && self.key.is_none() {
            let detail = "if_exists needs key: without a key, every publish is a new job";
            return Err(InvalidRequest::of_field("if_exists", detail));
        }
        if self
            .retain
            .is_some_and(|retain| retain.as_ms() > limits.retain_ms)
        {
            let detail = format!("retain must be at most {} ms", limits.retain_ms);
            return Err(InvalidRequest::of_field("retain", detail));
        }
        check_lease(self.lease)?;
        check_start_within(self.start_within)?;
        self.check_deliveries()?;
        let Some(retry) = &self.retry else {
            return Ok(());
        };
        if self.max_attempts.is_some() && retry.max_attempts.value().is_some() {
            return Err(InvalidRequest::of_both(
                "max_attempts",
                "retry.max_attempts",
            ));
        }
        retry.check().map_err(|invalid| invalid.inside("retry"))
    }
}

#[cfg(test)]
mod tests;
