//! The count of jobs that a relay holds, and the room that they take.

use std::sync::Arc;

use prometheus::IntGauge;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use super::state::RelayState;

/// Some jobs that a relay holds. They are held until this is dropped, also by a panic.
#[derive(Debug)]
pub(super) struct HeldJobs {
    count: usize,
    gauge: IntGauge,
    room: Option<OwnedSemaphorePermit>,
}

impl HeldJobs {
    /// Takes room for jobs. A source does not return more jobs than requested; if it does, these take no room.
    pub(super) fn new(state: &RelayState, room: &Arc<Semaphore>, count: usize) -> Self {
        let gauge = state.metrics.held.clone();
        gauge.add(i64::try_from(count).unwrap_or(0));
        let many = u32::try_from(count).unwrap_or(u32::MAX);
        Self {
            count,
            gauge,
            room: Arc::clone(room).try_acquire_many_owned(many).ok(),
        }
    }

    /// Takes some of them out.
    pub(super) fn split(&mut self, count: usize) -> Self {
        let count = count.min(self.count);
        self.count -= count;
        Self {
            count,
            gauge: self.gauge.clone(),
            room: self.room.as_mut().and_then(|room| room.split(count)),
        }
    }
}

impl Drop for HeldJobs {
    fn drop(&mut self) {
        self.gauge.sub(i64::try_from(self.count).unwrap_or(0));
    }
}
