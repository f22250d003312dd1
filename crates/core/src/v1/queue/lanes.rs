//! The lanes of queues.

use serde::{Deserialize, Serialize};

use crate::v1::input::CheckedRequest;
use crate::v1::values::CursorText;
use crate::{Namespace, QueueName};

/// How many lanes a queue gets.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct SetLanesBody {
    /// The lanes that take new jobs: from 1 to a quarter of the buckets of the pool, at most 64.
    #[cfg_attr(feature = "openapi", schema(minimum = 1, maximum = 64))]
    pub open: u16,
}

impl CheckedRequest for SetLanesBody {}

/// The lanes of a queue. A queue without a setting has one.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct QueueLanes {
    /// The namespace of the queue.
    pub namespace: Namespace,
    /// The name of the queue.
    pub queue: QueueName,
    /// The lanes that take new jobs.
    pub open: u16,
    /// The lanes that may hold jobs. Lanes from `open` on are out of use once they are empty.
    pub used: u16,
}

/// A page of a list of queues with more than one lane.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct LanesListPage {
    /// The queues of this page, sorted by namespace and name.
    pub items: Vec<QueueLanes>,
    /// The cursor of the next page; `null` at the end of the list.
    #[cfg_attr(feature = "openapi", schema(required = true))]
    pub next: Option<CursorText>,
}
