//! Lists of jobs.

use serde::{Deserialize, Serialize};

use super::details::JobDetails;
use crate::v1::values::CursorText;

/// A page of a list of jobs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct JobListPage {
    /// The jobs, each with the last entry of its history only.
    pub items: Vec<JobDetails>,
    /// The cursor of the next page; `null` at the end of the list.
    #[cfg_attr(feature = "openapi", schema(required = true))]
    pub next: Option<CursorText>,
}
