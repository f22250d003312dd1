//! The reports of a worker about its jobs: ack, fail, touch, release.

use std::fmt;

use serde::de::value::MapAccessDeserializer;
use serde::de::{Deserializer, Error, MapAccess, Visitor};
use serde::{Deserialize, Serialize};

use crate::limits::{ConfigurableLimits, SETTLE_LEASES_MAX};
use crate::v1::checks::{check_count, check_delay, check_lease};
use crate::v1::input::{CheckedRequest, objects};
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
    #[cfg_attr(feature = "openapi", schema(min_items = 1, max_items = 1000))]
    pub leases: Vec<AckItem>,
}

/// A job that is done, written as its lease or as an object with it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AckItem {
    /// Its lease.
    pub lease: LeaseText,
    /// Its result, if that is JSON. Excludes `result_base64`.
    pub result: Option<JsonText>,
    /// Its result as base64. Excludes `result`.
    pub result_base64: Option<Base64Bytes>,
    /// The content type of the result.
    pub content_type: Option<ContentType>,
}

#[serde_with::skip_serializing_none]
#[derive(Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
struct AckedLease {
    /// The lease of the job.
    lease: LeaseText,
    /// The result of the job, if it is JSON. Excludes `result_base64`.
    #[serde(default, deserialize_with = "even_null")]
    #[cfg_attr(feature = "openapi", schema(value_type = JsonText, required = false))]
    result: Option<JsonText>,
    /// The result as base64. Excludes `result`.
    result_base64: Option<Base64Bytes>,
    /// By default `application/json` for `result`, else `application/octet-stream`.
    content_type: Option<ContentType>,
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

impl Serialize for AckItem {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        if self.result.is_none() && self.result_base64.is_none() {
            return self.lease.serialize(serializer);
        }
        let item = AckedLease {
            lease: self.lease.clone(),
            result: self.result.clone(),
            result_base64: self.result_base64.clone(),
            content_type: self.content_type.clone(),
        };
        item.serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for AckItem {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(AckItemVisitor)
    }
}

struct AckItemVisitor;

impl<'de> Visitor<'de> for AckItemVisitor {
    type Value = AckItem;

    fn expecting(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("a lease, or {\"lease\":LEASE,\"result\":JSON}")
    }

    fn visit_str<E: Error>(self, lease: &str) -> Result<AckItem, E> {
        let lease: LeaseText = lease.parse().map_err(E::custom)?;
        Ok(lease.into())
    }

    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<AckItem, A::Error> {
        let read = AckedLease::deserialize(MapAccessDeserializer::new(map))?;
        Ok(AckItem {
            lease: read.lease,
            result: read.result,
            result_base64: read.result_base64,
            content_type: read.content_type,
        })
    }
}

#[cfg(feature = "openapi")]
impl utoipa::PartialSchema for AckItem {
    fn schema() -> utoipa::openapi::RefOr<utoipa::openapi::schema::Schema> {
        utoipa::openapi::schema::OneOfBuilder::new()
            .description(Some("A job that is done: its lease, or an object with it."))
            .item(LeaseText::schema())
            .item(AckedLease::schema())
            .into()
    }
}

#[cfg(feature = "openapi")]
impl utoipa::ToSchema for AckItem {
    fn schemas(
        schemas: &mut Vec<(
            String,
            utoipa::openapi::RefOr<utoipa::openapi::schema::Schema>,
        )>,
    ) {
        AckedLease::schemas(schemas);
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

fn check_leases(count: usize) -> Result<(), InvalidRequest> {
    check_count("leases", count, SETTLE_LEASES_MAX)
}

impl AckItem {
    /// The lease, and the result if there is one.
    ///
    /// # Errors
    /// Two results, or a content type that the result does not have. None if the request has been checked.
    pub fn into_parts(self) -> Result<(LeaseText, Option<JobPayload>), InvalidRequest> {
        if self.result.is_none() && self.result_base64.is_none() {
            return Ok((self.lease, None));
        }
        let result = JobPayload::from_fields(self.result, self.result_base64, self.content_type);
        Ok((self.lease, Some(result.map_err(of_result)?)))
    }

    fn check(&self, limits: &ConfigurableLimits) -> Result<(), InvalidRequest> {
        if self.result.is_none() && self.result_base64.is_none() {
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

impl CheckedRequest for AckBody {
    fn check(&self, limits: &ConfigurableLimits) -> Result<(), InvalidRequest> {
        check_leases(self.leases.len())?;
        for (index, item) in self.leases.iter().enumerate() {
            let checked = item.check(limits);
            checked.map_err(|invalid| invalid.inside(&format!("leases[{index}]")))?;
        }
        Ok(())
    }
}

impl CheckedRequest for FailBody {
    fn check(&self, _: &ConfigurableLimits) -> Result<(), InvalidRequest> {
        check_leases(self.leases.len())?;
        for (index, item) in self.leases.iter().enumerate() {
            if item.dead && item.retry_in.is_some() {
                return Err(
                    InvalidRequest::of_both("dead", "retry_in").inside(&format!("leases[{index}]"))
                );
            }
            check_delay("retry_in", item.retry_in)
                .map_err(|invalid| invalid.inside(&format!("leases[{index}]")))?;
        }
        Ok(())
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
