//! Reserving jobs.

use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::limits::{ConfigurableLimits, RESERVE_QUEUES_MAX};
use crate::v1::checks::{check_count, check_lease, check_wait};
use crate::v1::consume::{SettleBody, SettledJobs};
use crate::v1::input::{CheckedRequest, TextOrObject, optional_object, text_or_object};
use crate::v1::problem::InvalidRequest;
use crate::v1::values::{
    Base64Bytes, ContentType, DurationMs, JobAttributes, JobGroup, JobKey, JsonText, LeaseText,
    MaxJobs, QueueOrder, QueueWeight, Timestamp, WorkerNameText, even_null,
};
use crate::{JobId, QueueName};

/// Asks for ready jobs, and waits for them.
#[serde_with::skip_serializing_none]
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct ReserveBody {
    /// The queues: names, or names with weights.
    #[cfg_attr(feature = "openapi", schema(schema_with = crate::openapi::items::queues_to_reserve))]
    pub queues: Vec<QueueChoice>,
    /// In which order the queues are looked into: `weighted` if a queue has a weight, else `strict`.
    pub order: Option<QueueOrder>,
    /// How many jobs are returned at most.
    #[serde(default)]
    pub max_jobs: MaxJobs,
    /// How long the call waits for a job. By default it does not wait.
    #[serde(default)]
    pub wait: DurationMs,
    /// How long the jobs are held. By default as the job says, else as in the policy of its queue.
    pub lease: Option<DurationMs>,
    /// A name of the worker, with which it is listed together with the jobs that it holds.
    pub worker: Option<WorkerNameText>,
    /// Jobs whose ends the worker reports. That is done before jobs are reserved; if it fails, no job is reserved. It
    /// is safe to repeat.
    #[serde(default, deserialize_with = "optional_object")]
    pub settle: Option<SettleBody>,
}

impl ReserveBody {
    /// A call that leases one ready job of these queues, without waiting for it.
    pub fn new(queues: Vec<QueueChoice>) -> Self {
        Self {
            queues,
            order: None,
            max_jobs: MaxJobs::default(),
            wait: DurationMs::ZERO,
            lease: None,
            worker: None,
            settle: None,
        }
    }

    /// In which order the queues are looked into.
    pub fn queue_order(&self) -> QueueOrder {
        let has_weight = self.queues.iter().any(|queue| queue.weight.is_some());
        let implied = if has_weight {
            QueueOrder::Weighted
        } else {
            QueueOrder::Strict
        };
        self.order.unwrap_or(implied)
    }
}

impl CheckedRequest for ReserveBody {
    fn check(&self, limits: &ConfigurableLimits) -> Result<(), InvalidRequest> {
        check_count("queues", self.queues.len(), RESERVE_QUEUES_MAX)?;
        for (index, queue) in self.queues.iter().enumerate() {
            if self.queues[..index]
                .iter()
                .any(|other| other.name == queue.name)
            {
                let detail = format!("the queue {} is there twice; name it once", queue.name);
                return Err(InvalidRequest::of_field(format!("queues[{index}]"), detail));
            }
            if queue.weight.is_some() && self.order == Some(QueueOrder::Strict) {
                let detail = "weights need the order weighted; leave out the weight or order";
                return Err(InvalidRequest::of_field(
                    format!("queues[{index}].weight"),
                    detail,
                ));
            }
        }
        check_wait(Some(self.wait), limits)?;
        if let Some(settle) = &self.settle {
            let checked = settle.check(limits);
            checked.map_err(|invalid| invalid.inside("settle"))?;
        }
        check_lease(self.lease)
    }
}

/// A queue of a reserve call, written as its name or as an object with a weight.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(remote = "Self", deny_unknown_fields)]
pub struct QueueChoice {
    pub name: QueueName,
    /// How often it is looked into first, compared with the others.
    pub weight: Option<QueueWeight>,
}

impl From<QueueName> for QueueChoice {
    fn from(name: QueueName) -> Self {
        Self { name, weight: None }
    }
}

impl TextOrObject for QueueChoice {
    type Text = QueueName;

    const EXPECTED: &'static str = "the name of a queue, or {\"name\":NAME,\"weight\":NUMBER}";

    fn from_object<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Self::deserialize(deserializer)
    }
}

impl<'de> Deserialize<'de> for QueueChoice {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        text_or_object(deserializer)
    }
}

impl Serialize for QueueChoice {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self.weight {
            None => self.name.serialize(serializer),
            Some(_) => Self::serialize(self, serializer),
        }
    }
}

/// The jobs that a reserve call leased to the worker. None if there was no ready job.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct ReserveAnswer {
    /// The time of Redis, with which a worker can compare `lease_until`. Absent if there are no jobs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub now: Option<Timestamp>,
    /// The jobs.
    pub jobs: Vec<LeasedJobView>,
    /// The outcomes of `settle`. Absent if the call had none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub settled: Option<SettledJobs>,
}

/// A job that is leased to the worker.
#[serde_with::skip_serializing_none]
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct LeasedJobView {
    /// Its id.
    pub id: JobId,
    /// Its queue.
    pub queue: QueueName,
    /// The lease to send with `ack`, `fail`, `touch` and `release`.
    pub lease: LeaseText,
    /// When the lease expires, unless it is extended.
    pub lease_until: Timestamp,
    /// The number of this attempt, from 1. It only grows: together with the id it identifies the attempt.
    pub attempt: u32,
    /// How many attempts have failed.
    pub failures: u32,
    /// How many attempts have lost their worker.
    #[serde(default)]
    #[cfg_attr(feature = "openapi", schema(required = true))]
    pub losses: u32,
    /// When the job was due.
    pub run_at: Timestamp,
    /// When it was published.
    pub created_at: Timestamp,
    /// Its key, if it has one.
    pub key: Option<JobKey>,
    /// Its group, if it has one.
    pub group: Option<JobGroup>,
    /// Its attributes.
    #[serde(default, skip_serializing_if = "JobAttributes::is_empty")]
    pub attributes: JobAttributes,
    /// The span of this delivery, as in the header `traceparent`, if the delivery is traced: the parent of the spans of
    /// the worker.
    pub traceparent: Option<String>,
    /// The content type of the payload.
    pub content_type: ContentType,
    /// The payload, if the content type is JSON.
    #[serde(default, deserialize_with = "even_null")]
    #[cfg_attr(feature = "openapi", schema(value_type = JsonText, required = false))]
    pub payload: Option<JsonText>,
    /// Any other payload, as base64.
    pub payload_base64: Option<Base64Bytes>,
}

#[cfg(test)]
mod tests;
