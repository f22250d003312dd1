//! What a worker says about its jobs: ack, fail, touch, release.

use std::fmt;

use serde::de::value::MapAccessDeserializer;
use serde::de::{Deserializer, Error, MapAccess, Visitor};
use serde::{Deserialize, Serialize};
use utoipa::openapi::RefOr;
use utoipa::openapi::schema::{OneOfBuilder, Schema};
use utoipa::{PartialSchema, ToSchema};

use crate::checks::{check_count, check_delay, check_lease};
use crate::input::{CheckedRequest, objects};
use crate::limits::{ConfigurableLimits, SETTLE_LEASES_MAX};
use crate::problem::InvalidRequest;
use crate::values::{DurationMs, ErrorText, LeaseText};

/// Jobs that are done.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct AckBody {
    /// Their leases.
    #[schema(min_items = 1, max_items = 1000)]
    pub leases: Vec<AckItem>,
}

/// A job that is done, written as its lease or as an object with it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AckItem {
    /// Its lease.
    pub lease: LeaseText,
}

/// A job that is done.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
struct AckedLease {
    /// The lease of the job.
    lease: LeaseText,
}

impl From<LeaseText> for AckItem {
    fn from(lease: LeaseText) -> Self {
        Self { lease }
    }
}

impl Serialize for AckItem {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.lease.serialize(serializer)
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
        out.write_str("a lease, or {\"lease\":LEASE}")
    }

    fn visit_str<E: Error>(self, lease: &str) -> Result<AckItem, E> {
        let lease: LeaseText = lease.parse().map_err(E::custom)?;
        Ok(lease.into())
    }

    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<AckItem, A::Error> {
        let read = AckedLease::deserialize(MapAccessDeserializer::new(map))?;
        Ok(read.lease.into())
    }
}

impl PartialSchema for AckItem {
    fn schema() -> RefOr<Schema> {
        OneOfBuilder::new()
            .description(Some("A job that is done: its lease, or an object with it."))
            .item(LeaseText::schema())
            .item(AckedLease::schema())
            .into()
    }
}

impl ToSchema for AckItem {
    fn schemas(schemas: &mut Vec<(String, RefOr<Schema>)>) {
        AckedLease::schemas(schemas);
    }
}

/// Attempts that failed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct FailBody {
    /// The attempts.
    #[serde(deserialize_with = "objects")]
    #[schema(min_items = 1, max_items = 1000)]
    pub leases: Vec<FailItem>,
}

/// An attempt that failed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct FailItem {
    /// The lease of the job.
    pub lease: LeaseText,
    /// What failed.
    pub error: ErrorText,
    /// When the job is due again, from now on. By default as in its retry policy. Excludes `dead`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retry_in: Option<DurationMs>,
    /// Whether the job is dead now: another attempt would fail, too. Excludes `retry_in`.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub dead: bool,
}

/// Jobs that a worker holds for longer.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct TouchBody {
    /// Their leases.
    #[schema(min_items = 1, max_items = 1000)]
    pub leases: Vec<LeaseText>,
    /// How long the leases are from now on; never shortens a lease. By default as the job says, else as in the policy of
    /// its queue.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lease: Option<DurationMs>,
}

/// Jobs that a worker gives back. This is not a failure.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct ReleaseBody {
    /// Their leases.
    #[schema(min_items = 1, max_items = 1000)]
    pub leases: Vec<LeaseText>,
    /// When the jobs are due again, from now on. By default now.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub delay: Option<DurationMs>,
}

fn check_leases(count: usize) -> Result<(), InvalidRequest> {
    check_count("leases", count, SETTLE_LEASES_MAX)
}

impl CheckedRequest for AckBody {
    fn check(&self, _: &ConfigurableLimits) -> Result<(), InvalidRequest> {
        check_leases(self.leases.len())
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
