//! Changing when a job runs, and its priority.

use serde::{Deserialize, Serialize};

use crate::limits::ConfigurableLimits;
use crate::v1::checks::{check_due, check_start_within};
use crate::v1::field_change::FieldChange;
use crate::v1::input::CheckedRequest;
use crate::v1::problem::{InvalidRequest, ProblemCode};
use crate::v1::publish::DueTime;
use crate::v1::values::{DurationMs, JobKey, Priority, Timestamp};
use crate::{JobId, JobState};

/// The fields to change in a job that waits: at least one. The others stay as they are.
#[serde_with::skip_serializing_none]
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct JobChange {
    /// When the job is due, from now on. Excludes `run_at`.
    pub delay: Option<DurationMs>,
    /// When the job is due. The past means now. Excludes `delay`.
    #[cfg_attr(feature = "openapi", schema(value_type = Option<crate::openapi::answer::RequestTimestamp>))]
    pub run_at: Option<Timestamp>,
    /// The job is dropped if no worker has started it so long after it was due; `null` for never.
    #[serde(default, skip_serializing_if = "FieldChange::is_kept")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<DurationMs>))]
    pub start_within: FieldChange<DurationMs>,
    /// The priority. A ready job joins the end of the jobs that have it.
    pub priority: Option<Priority>,
}

impl JobChange {
    /// When the job is due, if that changes.
    pub fn due(&self) -> Option<DueTime> {
        let after = self.delay.map(DueTime::After);
        after.or_else(|| self.run_at.map(DueTime::At))
    }
}

/// A change of the due time alone.
impl From<DueTime> for JobChange {
    fn from(due: DueTime) -> Self {
        let change = Self::default();
        match due {
            DueTime::After(delay) => Self {
                delay: Some(delay),
                ..change
            },
            DueTime::At(run_at) => Self {
                run_at: Some(run_at),
                ..change
            },
        }
    }
}

impl CheckedRequest for JobChange {
    fn check(&self, _: &ConfigurableLimits) -> Result<(), InvalidRequest> {
        check_due(self.delay, self.run_at)?;
        check_start_within(self.start_within.value().copied())?;
        if *self == Self::default() {
            let detail = "nothing to change: send delay or run_at, start_within, or priority";
            return Err(InvalidRequest::new(ProblemCode::InvalidBody, detail));
        }
        Ok(())
    }
}

/// The result of a change.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "snake_case")]
pub enum ChangeResult {
    /// The job is as requested.
    Changed,
}

/// A job that was changed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct ChangedJob {
    /// Its id.
    pub id: JobId,
    /// Its key, if the request names it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key: Option<JobKey>,
    /// The result of the change.
    pub outcome: ChangeResult,
    /// Its state now.
    pub state: JobState,
    /// When it is due.
    pub run_at: Timestamp,
}

/// The result of a promote.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "snake_case")]
pub enum PromoteResult {
    /// The job was delayed and is ready now.
    Promoted,
    /// The job was ready before.
    AlreadyReady,
}

/// A job that was promoted: it runs without waiting for its time.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct PromotedJob {
    /// Its id.
    pub id: JobId,
    /// Its key, if the request names it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key: Option<JobKey>,
    /// The result of the promote.
    pub outcome: PromoteResult,
    /// When it was due.
    pub run_at: Timestamp,
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::v1::input::read_body;

    fn read(body: &Value) -> Result<JobChange, InvalidRequest> {
        read_body(body.to_string().as_bytes(), &ConfigurableLimits::default())
    }

    #[test]
    fn what_is_absent_stays_as_it_is() {
        let body = read(&json!({"delay": "5m"})).unwrap();
        assert_eq!(body.due(), Some(DueTime::After("5m".parse().unwrap())));
        assert_eq!(body.start_within, FieldChange::Keep);
        assert_eq!(serde_json::to_value(body).unwrap(), json!({"delay": "5m"}));
        let at = read(&json!({"run_at": "2026-11-21T12:30:00Z", "start_within": "1h"})).unwrap();
        assert_eq!(
            at.due(),
            Some(DueTime::At("2026-11-21T12:30:00Z".parse().unwrap()))
        );
        let never = read(&json!({"start_within": null})).unwrap();
        assert_eq!(
            (never.due(), &never.start_within),
            (None, &FieldChange::Reset)
        );
        assert_eq!(
            serde_json::to_value(never).unwrap(),
            json!({"start_within": null})
        );
    }

    #[test]
    fn other_changes_are_rejected() {
        for (body, expected) in [
            (json!({}), "invalid_body: nothing to change"),
            (
                json!({"delay": "1ms", "run_at": 0}),
                "delay_and_run_at: run_at: ",
            ),
            (
                json!({"start_within": "0s"}),
                "invalid_parameter: start_within: ",
            ),
            (
                json!({"payload": 1}),
                "invalid_body: payload: unknown field",
            ),
            (
                json!({"run_at": "10000-01-01T00:00:00Z"}),
                "run_at_out_of_range: run_at: ",
            ),
        ] {
            let error = read(&body).unwrap_err().to_string();
            assert!(error.starts_with(expected), "{body}: {error}");
        }
    }

    #[test]
    fn answers_round_trip() {
        let at = "2026-11-21T12:30:00.000Z";
        let id = "01KAJ0000000000000000000AB";
        let changed = json!({"id": id, "outcome": "changed", "state": "delayed", "run_at": at});
        let read: ChangedJob = serde_json::from_value(changed.clone()).unwrap();
        assert_eq!(serde_json::to_value(&read).unwrap(), changed);
        for outcome in ["promoted", "already_ready"] {
            let promoted = json!({"id": id, "key": "k", "outcome": outcome, "run_at": at});
            let read: PromotedJob = serde_json::from_value(promoted.clone()).unwrap();
            assert_eq!(serde_json::to_value(&read).unwrap(), promoted);
        }
    }
}
