//! Actions on all jobs that match a filter.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::change::JobChange;
use super::filter::JobFilter;
use crate::limits::ConfigurableLimits;
use crate::v1::input::{CheckedRequest, object, optional_object};
use crate::v1::problem::InvalidRequest;
use crate::v1::values::{CursorText, JobsPerSecond, PageSize};
use crate::{IfRunning, JobState};

/// A verb that is applied to many jobs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "snake_case")]
pub enum ActName {
    /// Cancels jobs that are delayed, ready or leased.
    Cancel,
    /// Makes delayed jobs ready.
    Promote,
    /// Brings dead jobs back with all their attempts. Jobs of the lmstfy wire get one attempt.
    Respawn,
    /// Deletes ready or dead jobs: the filter names the state.
    Purge,
    /// Changes when delayed or ready jobs are due.
    Change,
}

impl ActName {
    /// The states of the jobs that it is for.
    #[must_use]
    pub const fn states(self) -> &'static [JobState] {
        match self {
            Self::Cancel => &[JobState::Delayed, JobState::Ready, JobState::Leased],
            Self::Promote => &[JobState::Delayed],
            Self::Respawn => &[JobState::Dead],
            Self::Purge => &[JobState::Ready, JobState::Dead],
            Self::Change => &[JobState::Delayed, JobState::Ready],
        }
    }
}

/// A verb for all jobs of a queue that match a filter. A call acts on one page: repeat it with the cursor of its
/// answer.
#[serde_with::skip_serializing_none]
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct ActBody {
    /// The verb.
    #[serde(rename = "do")]
    pub act: ActName,
    /// Which jobs; `{}` = all in the states that the action is for.
    #[serde(deserialize_with = "object")]
    pub filter: JobFilter,
    /// Whether jobs are only counted.
    #[serde(default)]
    #[cfg_attr(feature = "openapi", schema(required = false))]
    pub dry_run: bool,
    /// Where the action continues: `next` of the answer before.
    pub cursor: Option<CursorText>,
    /// On how many jobs this call acts at most.
    #[serde(default)]
    #[cfg_attr(feature = "openapi", schema(required = false))]
    pub limit: PageSize,
    /// With `respawn`: how many jobs become due each second. By default all are ready at once.
    pub rate_per_second: Option<JobsPerSecond>,
    /// With `cancel`: the rule for jobs that workers hold.
    pub running: Option<IfRunning>,
    /// With `change`: the fields to change.
    #[serde(default, deserialize_with = "optional_object")]
    pub change: Option<JobChange>,
}

impl ActBody {
    /// An action on all jobs in its states.
    pub fn new(act: ActName) -> Self {
        Self {
            act,
            filter: JobFilter::default(),
            dry_run: false,
            cursor: None,
            limit: PageSize::default(),
            rate_per_second: None,
            running: None,
            change: None,
        }
    }

    /// The states of the jobs that it is for.
    pub fn states(&self) -> &[JobState] {
        self.filter.states(self.act.states())
    }

    /// With `respawn`: the time between two jobs that become due.
    pub fn space(&self) -> Duration {
        let rate = self.rate_per_second;
        rate.map_or(Duration::ZERO, |rate| Duration::from_secs(1) / rate.get())
    }
}

impl CheckedRequest for ActBody {
    fn check(&self, limits: &ConfigurableLimits) -> Result<(), InvalidRequest> {
        let of_field = |field: &'static str, detail: &str| {
            Err(InvalidRequest::of_field(field, detail.to_owned()))
        };
        self.filter.check(limits)?;
        if self.act != ActName::Respawn && self.rate_per_second.is_some() {
            return of_field("rate_per_second", "rate_per_second is for `respawn` only");
        }
        if self.act != ActName::Cancel && self.running.is_some() {
            return of_field("running", "running is for `cancel` only");
        }
        match (self.act, &self.change) {
            (ActName::Change, Some(change)) => change.check(limits)?,
            (ActName::Change, None) => {
                return of_field("change", "name a change, such as {\"delay\":\"5m\"}");
            }
            (_, Some(_)) => return of_field("change", "change is for `change` only"),
            (_, None) => {}
        }
        let is_for = |state| self.act.states().contains(&state);
        match self.filter.state {
            Some(state) if !is_for(state) => {
                let detail = "the action is not for jobs in this state";
                Err(InvalidRequest::of_field("filter.state", detail))
            }
            // No purge deletes more than intended.
            None if self.act == ActName::Purge => of_field(
                "filter.state",
                "name the state of the jobs to delete: ready or dead",
            ),
            _ => Ok(()),
        }
    }
}

/// The result of a call.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct ActAnswer {
    /// How many jobs matched the filter.
    pub matched: u64,
    /// How many of them were changed; 0 with `dry_run`. The others had changed their state meanwhile, or workers hold
    /// them.
    pub changed: u64,
    /// Where the action continues; `null` when it is complete. A call that found no job need not be the last one.
    #[cfg_attr(feature = "openapi", schema(required = true))]
    pub next: Option<CursorText>,
    /// How long to wait before the next call. More than 0 if a respawn at a rate is 10 s ahead.
    pub wait_ms: u64,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::v1::input::read_body;

    fn read(json: &str) -> Result<ActBody, InvalidRequest> {
        read_body(json.as_bytes(), &ConfigurableLimits::default())
    }

    #[test]
    fn an_action_takes_only_its_own_options_and_states() {
        assert!(
            read(r#"{"do":"cancel"}"#)
                .unwrap_err()
                .detail
                .contains("filter")
        );
        for json in [
            r#"{"do":"cancel","filter":{}}"#,
            r#"{"do":"cancel","filter":{"state":"leased"},"running":"revoke"}"#,
            r#"{"do":"promote","filter":{"key_prefix":"order-"},"dry_run":true,"limit":1000}"#,
            r#"{"do":"respawn","filter":{"error_contains":"smtp"},"rate_per_second":50,"cursor":"0.0"}"#,
            r#"{"do":"purge","filter":{"state":"dead"}}"#,
            r#"{"do":"change","filter":{},"change":{"delay":"5m"}}"#,
        ] {
            let body = read(json).unwrap();
            let again = serde_json::to_string(&body).unwrap();
            assert_eq!(read(&again).unwrap(), body);
        }
        for (json, field) in [
            (r#"{"do":"cancel","filter":[]}"#, "filter"),
            (
                r#"{"do":"cancel","filter":{"state":"dead"}}"#,
                "filter.state",
            ),
            (r#"{"do":"purge","filter":{}}"#, "filter.state"),
            (r#"{"do":"promote","filter":{},"running":"ask"}"#, "running"),
            (
                r#"{"do":"purge","filter":{"state":"dead"},"rate_per_second":5}"#,
                "rate_per_second",
            ),
            (r#"{"do":"change","filter":{}}"#, "change"),
            (
                r#"{"do":"cancel","filter":{},"change":{"delay":"5m"}}"#,
                "change",
            ),
        ] {
            let error = read(json).unwrap_err();
            assert_eq!(
                error.field.as_deref(),
                Some(field),
                "{json}: {}",
                error.detail
            );
        }
    }
}
