//! Publishing several jobs in one request.

use serde::{Deserialize, Deserializer, Serialize};

use super::content::JobContent;
use super::options::JobOptions;
use crate::limits::{ATOMIC_BATCH_JOBS_MAX, BATCH_JOBS_MAX, ConfigurableLimits};
use crate::v1::checks::check_count;
use crate::v1::input::{CheckedRequest, embedding, objects};
use crate::v1::problem::InvalidRequest;
use crate::v1::values::{JobAttributes, JobPayload};

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
#[derive(Debug, Clone, PartialEq, Default, Serialize)]
pub struct BatchItem {
    /// Its payload and attributes.
    #[serde(flatten)]
    pub content: JobContent,
    /// Its options.
    #[serde(flatten)]
    pub options: JobOptions,
}

impl BatchItem {
    /// The fields of an item in JSON.
    pub(crate) const FIELDS: &[&str] = &[
        "payload",
        "payload_base64",
        "content_type",
        "attributes",
        "delay",
        "run_at",
        "priority",
        "group",
        "key",
        "if_exists",
        "retain",
        "idempotency_key",
        "durability",
        "lease",
        "max_attempts",
        "retry",
        "start_within",
        "max_deliveries",
        "ttl",
    ];

    /// A job with a payload, attributes and options.
    pub fn new(payload: JobPayload, attributes: JobAttributes, options: JobOptions) -> Self {
        Self {
            content: JobContent::new(payload, attributes),
            options,
        }
    }
}

impl<'de> Deserialize<'de> for BatchItem {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let (content, options) = embedding(deserializer, Self::FIELDS)?;
        Ok(Self { content, options })
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
            let checked = job.content.check(limits);
            let checked = checked.and_then(|()| job.options.check(limits));
            checked.map_err(|invalid| invalid.inside(&format!("jobs[{index}]")))?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
