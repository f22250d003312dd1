//! Publishing several jobs in one request.

use serde::{Deserialize, Serialize};

use super::options::JobOptions;
use crate::limits::{ATOMIC_BATCH_JOBS_MAX, BATCH_JOBS_MAX, ConfigurableLimits};
use crate::v1::checks::check_count;
use crate::v1::input::{CheckedRequest, objects};
use crate::v1::problem::{InvalidRequest, ProblemCode};
use crate::v1::retry::{RetryChange, retry_of_job};
use crate::v1::values::{
    Base64Bytes, ContentType, DurationMs, IdempotencyKey, JobAttributes, JobKey, JobPayload,
    JsonText, MaxAttempts, MaxDeliveries, Timestamp, even_null,
};
use crate::{Durability, IfExists};

/// Up to 1,000 jobs for one queue, stored in this order.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct BatchBody {
    /// The jobs.
    #[serde(deserialize_with = "objects")]
    #[cfg_attr(feature = "openapi", schema(min_items = 1, max_items = 1000))]
    pub jobs: Vec<BatchItem>,
    /// Whether all jobs are stored or none. At most 64 jobs.
    #[serde(default)]
    pub atomic: bool,
}

/// A job of a batch: a payload, attributes, and the options of a publish.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct BatchItem {
    /// The payload, if it is JSON. Excludes `payload_base64`.
    #[serde(
        default,
        deserialize_with = "even_null",
        skip_serializing_if = "Option::is_none"
    )]
    #[cfg_attr(feature = "openapi", schema(value_type = JsonText, required = false))]
    pub payload: Option<JsonText>,
    /// The payload as base64. Excludes `payload`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub payload_base64: Option<Base64Bytes>,
    /// By default `application/json` for `payload`, else `application/octet-stream`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub content_type: Option<ContentType>,
    /// Names and values that travel with the job.
    #[serde(default, skip_serializing_if = "JobAttributes::is_empty")]
    pub attributes: JobAttributes,
    /// How long the job is delayed. Excludes `run_at`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub delay: Option<DurationMs>,
    /// When the job is due. The past means now. Excludes `delay`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub run_at: Option<Timestamp>,
    /// A key that is unique in the queue.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key: Option<JobKey>,
    /// What happens if a job has the key: `keep` by default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub if_exists: Option<IfExists>,
    /// How long the finished job stays with its key. By default as in the policy of the queue.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retain: Option<DurationMs>,
    /// Makes it safe to repeat the publish of this job: a repetition returns the first job.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub idempotency_key: Option<IdempotencyKey>,
    /// What must have stored the job before the batch is answered. By default as set for the namespace.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub durability: Option<Durability>,
    /// How long a worker may hold the job without extending its lease, unless the reserve call says something else.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lease: Option<DurationMs>,
    /// After how many failed attempts the job is dead. Excludes `retry.max_attempts`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_attempts: Option<MaxAttempts>,
    /// When failed attempts are repeated.
    #[serde(
        default,
        deserialize_with = "retry_of_job",
        skip_serializing_if = "Option::is_none"
    )]
    pub retry: Option<RetryChange>,
    /// The job is dropped if no worker has started it so long after it was due.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub start_within: Option<DurationMs>,
    /// How often the job is delivered at most, as for a job of lmstfy: the last delivery that is not acknowledged makes it
    /// dead. Failures and lost workers are not counted then. Excludes `max_attempts`, `retry` and `start_within`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_deliveries: Option<MaxDeliveries>,
    /// How long after its publish the job is deleted, in any state but dead, as a job of lmstfy. Needs `max_deliveries`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ttl: Option<DurationMs>,
}

impl BatchItem {
    /// A job with a payload, attributes and options.
    #[must_use]
    pub fn new(payload: JobPayload, attributes: JobAttributes, options: JobOptions) -> Self {
        let content_type = payload.content_type.clone();
        let (payload, payload_base64) = payload.into_fields();
        Self {
            payload,
            payload_base64,
            content_type: Some(content_type),
            attributes,
            delay: options.delay,
            run_at: options.run_at,
            key: options.key,
            if_exists: options.if_exists,
            retain: options.retain,
            idempotency_key: options.idempotency_key,
            durability: options.durability,
            lease: options.lease,
            max_attempts: options.max_attempts,
            retry: options.retry,
            start_within: options.start_within,
            max_deliveries: options.max_deliveries,
            ttl: options.ttl,
        }
    }

    /// The options of this job, which are those that a single publish has in its query.
    #[must_use]
    pub fn options(&self) -> JobOptions {
        JobOptions {
            delay: self.delay,
            run_at: self.run_at,
            key: self.key.clone(),
            if_exists: self.if_exists,
            retain: self.retain,
            idempotency_key: self.idempotency_key.clone(),
            durability: self.durability,
            lease: self.lease,
            max_attempts: self.max_attempts,
            retry: self.retry.clone(),
            start_within: self.start_within,
            max_deliveries: self.max_deliveries,
            ttl: self.ttl,
            wait: None,
        }
    }

    /// The payload, attributes and options of this job.
    ///
    /// # Errors
    /// Those of [`JobPayload::from_fields`]. None if the batch has been checked.
    pub fn into_parts(self) -> Result<(JobPayload, JobAttributes, JobOptions), InvalidRequest> {
        let options = self.options();
        let payload =
            JobPayload::from_fields(self.payload, self.payload_base64, self.content_type)?;
        Ok((payload, self.attributes, options))
    }

    fn check(&self, limits: &ConfigurableLimits) -> Result<(), InvalidRequest> {
        let bytes = JobPayload::check_fields(
            self.payload.as_ref(),
            self.payload_base64.as_ref(),
            self.content_type.as_ref(),
        )?;
        if bytes > limits.payload_bytes {
            let detail = format!("the payload has more than {} bytes", limits.payload_bytes);
            return Err(InvalidRequest::new(ProblemCode::PayloadTooLarge, detail).at("payload"));
        }
        let attributes = self.attributes.check();
        attributes.map_err(|invalid| InvalidRequest::from(invalid).at("attributes"))?;
        self.options().check(limits)
    }
}

impl CheckedRequest for BatchBody {
    fn check(&self, limits: &ConfigurableLimits) -> Result<(), InvalidRequest> {
        let most = if self.atomic {
            ATOMIC_BATCH_JOBS_MAX
        } else {
            BATCH_JOBS_MAX
        };
        check_count("jobs", self.jobs.len(), most).map_err(|mut invalid| {
            if self.atomic {
                invalid.detail.push_str(" if atomic is true");
            }
            invalid
        })?;
        for (index, job) in self.jobs.iter().enumerate() {
            let checked = job.check(limits);
            checked.map_err(|invalid| invalid.inside(&format!("jobs[{index}]")))?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
