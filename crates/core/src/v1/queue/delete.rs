//! Deleting a queue.

use serde::{Deserialize, Serialize};

/// The result of deleting a queue.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "snake_case")]
pub enum DeleteQueueResult {
    /// It had no jobs, and has no policy any more.
    Deleted,
}

/// The answer to deleting a queue.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct DeletedQueue {
    /// The result.
    pub outcome: DeleteQueueResult,
}
