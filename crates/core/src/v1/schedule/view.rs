//! How schedules are shown.

use serde::{Deserialize, Serialize};

use super::config::Schedule;
use crate::v1::input::CheckedRequest;
use crate::v1::values::{CursorText, RunCount, ScheduleNameText, Timestamp};

/// A schedule.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct ScheduleDetails {
    /// Its name, unique in its namespace.
    pub name: ScheduleNameText,
    /// Changes with every `PUT`. The header `ETag` has it in quotes.
    pub revision: String,
    /// Its definition, as `PUT` takes it.
    pub config: Schedule,
    /// The next tick; `null` if it is paused or has ended. It is in the past if the tick was missed.
    #[cfg_attr(feature = "openapi", schema(required = true))]
    pub next_run: Option<Timestamp>,
}

/// A page of a list of schedules.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct ScheduleListPage {
    /// The schedules, by name.
    pub items: Vec<ScheduleDetails>,
    /// The cursor of the next page; `null` at the end of the list.
    #[cfg_attr(feature = "openapi", schema(required = true))]
    pub next: Option<CursorText>,
}

/// The parameters of a list of next runs.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::IntoParams))]
#[serde(deny_unknown_fields)]
#[cfg_attr(feature = "openapi", into_params(parameter_in = Query))]
pub struct NextRunsQuery {
    /// How many ticks are returned at most.
    #[serde(default)]
    #[cfg_attr(feature = "openapi", param(required = false))]
    pub count: RunCount,
}

impl CheckedRequest for NextRunsQuery {}

/// The next ticks of a schedule.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct ScheduleRuns {
    /// The times, the first one first. None if the schedule is paused or has ended.
    pub runs: Vec<Timestamp>,
}

/// The result of deleting a schedule.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "snake_case")]
pub enum DeleteScheduleResult {
    /// It publishes no more jobs.
    Deleted,
}

/// The answer to deleting a schedule.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct DeletedSchedule {
    /// The result.
    pub outcome: DeleteScheduleResult,
}
