//! Values from short closed lists.

use serde::{Deserialize, Serialize};

/// In which order a reserve call looks into its queues.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "snake_case")]
pub enum QueueOrder {
    /// In the order of the request: a queue is only used when all before it have no ready job.
    Strict,
    /// At random, in proportion to the weights.
    Weighted,
}
