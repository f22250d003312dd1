//! The reports of a worker about its jobs: ack, fail, touch, release.

use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::limits::{ConfigurableLimits, SETTLE_LEASES_MAX};
use crate::v1::checks::{check_count, check_delay, check_lease};
use crate::v1::input::{CheckedRequest, TextOrObject, objects, text_or_object};
use crate::v1::problem::{InvalidRequest, ProblemCode};
use crate::v1::values::{
    Base64Bytes, ContentType, DurationMs, ErrorText, JobPayload, JsonText, LeaseText, even_null,
};

/// Jobs that are done.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct AckBody {
    /// Their leases.
    #[cfg_attr(feature = "openapi", schema(schema_with = crate::openapi::items::leases_to_ack))]
    pub leases: Vec<AckItem>,
}

/// A job that is done, written as its lease or as an object with it.
#[serde_with::skip_serializing_none]
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(remote = "Self", deny_unknown_fields)]
pub struct AckItem {
    /// The lease of the job.
    pub lease: LeaseText,
    /// The result of the job, if it is JSON. Excludes `result_base64`.
    #[serde(default, deserialize_with = "even_null")]
    #[cfg_attr(feature = "openapi", schema(value_type = JsonText, required = false))]
    pub result: Option<JsonText>,
    /// The result as base64. Excludes `result`.
    pub result_base64: Option<Base64Bytes>,
    /// By default `application/json` for `result`, else `application/octet-stream`.
    pub content_type: Option<ContentType>,
}

impl From<LeaseText> for AckItem {
    fn from(lease: LeaseText) -> Self {
        Self {
            lease,
            result: None,
            result_base64: None,
            content_type: None,
        }
    }
}

impl TextOrObject for AckItem {
    type Text = LeaseText;

    const EXPECTED: &'static str = "a lease, or {\"lease\":LEASE,\"result\":JSON}";

    fn from_object<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Self::deserialize(deserializer)
    }
}

impl<'de> Deserialize<'de> for AckItem {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        text_or_object(deserializer)
    }
}

impl Serialize for AckItem {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self.has_result() {
            false => self.lease.serialize(serializer),
            true => Self::serialize(self, serializer),
        }
    }
}

/// Attempts that failed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct FailBody {
    /// The attempts.
    #[serde(deserialize_with = "objects")]
    #[cfg_attr(feature = "openapi", schema(min_items = 1, max_items = 1000))]
    pub leases: Vec<FailItem>,
}

/// An attempt that failed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct FailItem {
    /// The lease of the job.
    pub lease: LeaseText,
    /// The reason of the failure.
    pub error: ErrorText,
    /// When the job is due again, from now on. By default as in its retry policy. Excludes `dead`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retry_in: Option<DurationMs>,
    /// Whether the job is dead now: another attempt would fail, too. Excludes `retry_in`.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub dead: bool,
}

/// Jobs that a worker holds for longer.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct TouchBody {
    /// Their leases.
    #[cfg_attr(feature = "openapi", schema(min_items = 1, max_items = 1000))]
    pub leases: Vec<LeaseText>,
    /// How long the leases are from now on; never shortens a lease. By default as the job says, else as in the policy
    /// of its queue.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lease: Option<DurationMs>,
}

/// Jobs that a worker gives back. This is not a failure.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct ReleaseBody {
    /// Their leases.
    #[cfg_attr(feature = "openapi", schema(min_items = 1, max_items = 1000))]
    pub leases: Vec<LeaseText>,
    /// When the jobs are due again, from now on. By default now.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub delay: Option<DurationMs>,
}

/// Ends of jobs that a worker reports with its next reserve call, before which they are carried out.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct SettleBody {
    /// Jobs that are done.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[cfg_attr(feature = "openapi", schema(schema_with = crate::openapi::items::leases_to_ack))]
    pub ack: Vec<AckItem>,
    /// Attempts that failed.
    #[serde(
        default,
        deserialize_with = "objects",
        skip_serializing_if = "Vec::is_empty"
    )]
    #[cfg_attr(feature = "openapi", schema(min_items = 1, max_items = 1000))]
    pub fail: Vec<FailItem>,
}

fn check_leases(count: usize) -> Result<(), InvalidRequest> {
    check_count("leases", count, SETTLE_LEASES_MAX)
}

impl AckItem {
    const fn has_result(&self) -> bool {
        self.result.is_some() || self.result_base64.is_some()
    }

    /// The lease, and the result if there is one.
    ///
    /// # Errors
    /// Two results, or a content type that the result does not have. None if the request has been checked.
    pub fn into_parts(self) -> Result<(LeaseText, Option<JobPayload>), InvalidRequest> {
        if !self.has_result() {
            return Ok((self.lease, None));
        }
        let result = JobPayload::from_fields(self.result, self.result_base64, self.content_type);
        Ok((self.lease, Some(result.map_err(of_result)?)))
    }

    fn check(&self, limits: &ConfigurableLimits) -> Result<(), InvalidRequest> {
        if !self.has_result() {
            if self.content_type.is_some() {
                let detail = "content_type belongs to result or result_base64; send one of them";
                return Err(InvalidRequest::of_field("content_type", detail));
            }
            return Ok(());
        }
        let bytes = JobPayload::check_fields(
            self.result.as_ref(),
            self.result_base64.as_ref(),
            self.content_type.as_ref(),
        );
        if bytes.map_err(of_result)? > limits.result_bytes {
            let detail = format!(
                "the result has more than {} bytes: store it elsewhere, and return its address",
                limits.result_bytes
            );
            return Err(InvalidRequest::new(ProblemCode::PayloadTooLarge, detail).at("result"));
        }
        Ok(())
    }
}

/// The same error for a result, whose fields have the names of payload fields with `result` instead.
fn of_result(mut invalid: InvalidRequest) -> InvalidRequest {
    invalid.detail = invalid.detail.replace("payload", "result");
    invalid.field = invalid
        .field
        .map(|field| field.replace("payload", "result"));
    invalid
}

impl FailItem {
    fn check(&self) -> Result<(), InvalidRequest> {
        if self.dead && self.retry_in.is_some() {
            return Err(InvalidRequest::of_both("dead", "retry_in"));
        }
        check_delay("retry_in", self.retry_in)
    }
}

/// Checks each item of the list `field`.
fn check_items<T>(
    field: &str,
    items: &[T],
    check: impl Fn(&T) -> Result<(), InvalidRequest>,
) -> Result<(), InvalidRequest> {
    for (index, item) in items.iter().enumerate() {
        check(item).map_err(|invalid| invalid.inside(&format!("{field}[{index}]")))?;
    }
    Ok(())
}

impl CheckedRequest for AckBody {
    fn check(&self, limits: &ConfigurableLimits) -> Result<(), InvalidRequest> {
        check_leases(self.leases.len())?;
        check_items("leases", &self.leases, |item| item.check(limits))
    }
}

impl CheckedRequest for FailBody {
    fn check(&self, _: &ConfigurableLimits) -> Result<(), InvalidRequest> {
        check_leases(self.leases.len())?;
        check_items("leases", &self.leases, FailItem::check)
    }
}

impl CheckedRequest for SettleBody {
    fn check(&self, limits: &ConfigurableLimits) -> Result<(), InvalidRequest> {
        for (field, count) in [("ack", self.ack.len()), ("fail", self.fail.len())] {
            if count > 0 {
                check_count(field, count, SETTLE_LEASES_MAX)?;
            }
        }
        check_items("ack", &self.ack, |item| item.check(limits))?;
        check_items("fail", &self.fail, FailItem::check)
    }
}

impl CheckedRequest for TouchBody {
    fn check(&self, _: &ConfigurableLimits) -> Result<(), InvalidRequest> {
        check_leases(self.leases.len())?;
        check_lease(self.lease)
    }
}

impl CheckedRequest for ReleaseBody {
    fn check(&self, _: &ConfigurableLimits) -> Result<(), InvalidRequest> {
        check_leases(self.leases.len())?;
        check_delay("delay", self.delay)
    }
}

#[cfg(test)]
mod tests;
