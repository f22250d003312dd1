//! Which jobs of a queue a list has, or an action changes.

use serde::{Deserialize, Serialize};

use super::error_digest::ErrorDigest;
use crate::JobState;
use crate::limits::ConfigurableLimits;
use crate::v1::input::CheckedRequest;
use crate::v1::problem::InvalidRequest;
use crate::v1::values::{AttributeText, FilterText, JobGroup, JobKey, Timestamp};

/// A filter for jobs. It selects the jobs that match all its fields; without a field it selects all jobs.
#[serde_with::skip_serializing_none]
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema, utoipa::IntoParams))]
#[serde(deny_unknown_fields)]
#[cfg_attr(feature = "openapi", into_params(parameter_in = Query))]
pub struct JobFilter {
    /// Their state.
    pub state: Option<JobState>,
    /// Not before this instant is a delayed or ready job due, does a lease end, or has a job died.
    #[cfg_attr(feature = "openapi", schema(value_type = Option<crate::openapi::answer::RequestTimestamp>))]
    #[cfg_attr(feature = "openapi", param(value_type = Option<crate::openapi::answer::RequestTimestamp>))]
    pub due_from: Option<Timestamp>,
    /// The same before this instant.
    #[cfg_attr(feature = "openapi", schema(value_type = Option<crate::openapi::answer::RequestTimestamp>))]
    #[cfg_attr(feature = "openapi", param(value_type = Option<crate::openapi::answer::RequestTimestamp>))]
    pub due_before: Option<Timestamp>,
    /// How their keys begin.
    pub key_prefix: Option<JobKey>,
    /// Their group.
    pub group: Option<JobGroup>,
    /// An attribute that they have, as `NAME=VALUE`.
    pub attribute: Option<AttributeText>,
    /// A part of their last error, with the same upper and lower case.
    pub error_contains: Option<FilterText>,
    /// Their last error, exactly. It is no part of requests: the dashboard groups dead jobs by it.
    #[serde(skip)]
    pub error_digest: Option<ErrorDigest>,
}

impl JobFilter {
    /// The states of the jobs: `all` unless the filter names one.
    pub fn states<'a>(&'a self, all: &'a [JobState]) -> &'a [JobState] {
        self.state.as_ref().map_or(all, std::slice::from_ref)
    }
}

impl CheckedRequest for JobFilter {
    fn check(&self, _: &ConfigurableLimits) -> Result<(), InvalidRequest> {
        match (self.due_from, self.due_before) {
            (Some(from), Some(before)) if from >= before => Err(InvalidRequest::of_field(
                "due_before",
                "due_before must be later than due_from",
            )),
            _ => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::v1::input::read_query;

    fn read(pairs: &[(&str, &str)]) -> Result<JobFilter, InvalidRequest> {
        let pairs: Vec<_> = pairs
            .iter()
            .map(|(name, value)| ((*name).into(), (*value).into()))
            .collect();
        read_query(&pairs, &ConfigurableLimits::default())
    }

    #[test]
    fn filters_are_read_from_a_query() {
        assert_eq!(read(&[]).unwrap(), JobFilter::default());
        let filter = read(&[
            ("state", "dead"),
            ("due_from", "2026-11-21T12:00:00Z"),
            ("key_prefix", "order-"),
            ("group", "tenant-17"),
            ("attribute", "tenant=a=b"),
            ("error_contains", "smtp: 550"),
        ]);
        let filter = filter.unwrap();
        assert_eq!(filter.state, Some(JobState::Dead));
        assert_eq!(filter.attribute.unwrap().parts(), ("tenant", "a=b"));
        for (name, value) in [
            ("state", "gone"),
            ("due_from", "yesterday"),
            ("attribute", "tenant"),
            ("attribute", "=a"),
            ("attribute", ":k=a"),
            ("key_prefix", ""),
            ("error_contains", "\n"),
            ("error", "smtp"),
        ] {
            let error = read(&[(name, value)]).unwrap_err();
            assert_eq!(error.field.as_deref(), Some(name), "{value}");
        }
        let none = read(&[
            ("due_from", "1764000000000"),
            ("due_before", "1764000000000"),
        ]);
        assert_eq!(none.unwrap_err().field.as_deref(), Some("due_before"));
    }
}
