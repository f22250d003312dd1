//! The form in which a process stores what it knows.

use std::time::Duration;

use serde::{Deserialize, Serialize};

/// How long a stored entry counts. An entry without changes is stored again after a third of it.
pub(super) const KEPT: Duration = Duration::from_secs(60);

/// A worker.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct StoredWorker {
    pub(super) name: String,
    /// The queues of its last request.
    pub(super) queues: Vec<String>,
    /// The time since its last request, in ms; 0 while a request waits.
    pub(super) idle_ms: u64,
    /// Whether a request waits for jobs.
    pub(super) waits: bool,
    /// Jobs that it holds, at most as many as are stored.
    pub(super) leases: Vec<StoredLease>,
}

/// A job that a worker holds.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct StoredLease {
    pub(super) id: String,
    pub(super) queue: String,
    pub(super) attempt: u32,
    pub(super) since_ms: u64,
}
