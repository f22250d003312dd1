//! Deleting a queue, relay or schedule.

use serde::{Deserialize, Serialize};

/// The answer to a deletion.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(tag = "outcome", rename_all = "snake_case")]
pub enum DeleteAnswer {
    /// It was there, and is deleted.
    Deleted,
}
