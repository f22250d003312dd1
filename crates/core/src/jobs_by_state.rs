//! Numbers of jobs.

use std::ops::AddAssign;

use serde::{Deserialize, Serialize};

/// How many jobs a queue has, by state.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct JobsByState {
    /// Not due yet.
    pub delayed: u64,
    /// Due, and waiting for a worker.
    pub ready: u64,
    /// Held by a worker.
    pub leased: u64,
    /// In the dead letter.
    pub dead: u64,
    /// Finished, and retained with their keys.
    #[serde(default)]
    pub done: u64,
}

impl AddAssign for JobsByState {
    fn add_assign(&mut self, other: Self) {
        self.delayed += other.delayed;
        self.ready += other.ready;
        self.leased += other.leased;
        self.dead += other.dead;
        self.done += other.done;
    }
}
