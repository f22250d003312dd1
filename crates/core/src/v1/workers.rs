//! Lists of workers.

use serde::{Deserialize, Serialize};

use crate::v1::values::{CursorText, Timestamp, WorkerNameText};
use crate::{JobId, QueueName};

/// A job that a worker holds.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct WorkerJob {
    /// Its id.
    pub id: JobId,
    /// Its queue.
    pub queue: QueueName,
    /// The number of the attempt.
    pub attempt: u32,
    /// Since when the worker holds it.
    pub since: Timestamp,
    /// When its lease ends.
    pub lease_until: Timestamp,
}

/// A worker that has given its name in a reserve call.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct WorkerView {
    /// Its name.
    pub worker: WorkerNameText,
    /// The queues that it has asked for.
    pub queues: Vec<QueueName>,
    /// Whether it waits for jobs now.
    pub waits: bool,
    /// When its last reserve call ended; now while one waits.
    pub seen_at: Timestamp,
    /// The jobs that it holds, longest first: up to 100 for each server that it talks to.
    pub jobs: Vec<WorkerJob>,
}

/// A page of the workers of a namespace.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct WorkerListPage {
    /// The workers, by name.
    pub items: Vec<WorkerView>,
    /// The cursor of the next page; `null` at the end of the list.
    #[cfg_attr(feature = "openapi", schema(required = true))]
    pub next: Option<CursorText>,
}
