//! Lists of jobs.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::details::JobDetails;
use crate::v1::values::CursorText;

/// A page of a list of jobs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct JobListPage {
    /// The jobs, each with the last entry of its history only.
    pub items: Vec<JobDetails>,
    /// The cursor of the next page; `null` at the end of the list.
    #[schema(required = true)]
    pub next: Option<CursorText>,
}
