//! The form in which a process stores what it knows of a worker.

use std::collections::BTreeMap;
use std::time::Duration;

use serde::{Deserialize, Serialize};

/// How long a stored entry counts. An entry without changes is stored again after a third of it.
pub(super) const KEPT: Duration = Duration::from_secs(60);

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct StoredWorker {
    /// The queues of its last request.
    pub(super) queues: Vec<String>,
    /// The time since its last request, in ms; 0 while a request waits.
    pub(super) idle_ms: u64,
    /// Whether a request waits for jobs.
    pub(super) waits: bool,
    /// Jobs that it holds, by queue.
    pub(super) leases: BTreeMap<String, Vec<StoredLease>>,
}

/// A job that a worker holds: its id, the attempt, and when the lease began, in ms since 1970.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct StoredLease(pub(super) String, pub(super) u32, pub(super) u64);
