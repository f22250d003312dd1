//! Lanes: the parts of a queue, each in a different bucket.

use std::time::Duration;

use crate::key_placement::{KeyPlacement, LaneNumbers};
use crate::name::QueueKey;

/// How often each API process closes lanes that take no new jobs and are empty, and takes them out of use. Such a lane
/// is out of use after two intervals at most.
pub const LANES_SETTLE_INTERVAL: Duration = Duration::from_secs(5);

/// One lane of a queue. Most queues have lane 0 only, so a [`QueueKey`] converts to its lane 0.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Lane<'a> {
    pub queue: &'a QueueKey,
    /// Number of the lane, from 0.
    pub number: u16,
}

impl QueueKey {
    /// One of the queue's lanes.
    pub const fn lane(&self, number: u16) -> Lane<'_> {
        Lane {
            queue: self,
            number,
        }
    }
}

impl<'a> From<&'a QueueKey> for Lane<'a> {
    fn from(queue: &'a QueueKey) -> Self {
        queue.lane(0)
    }
}

/// How many lanes a queue has.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct LaneCounts {
    /// New jobs go to the lanes below this number; at least 1.
    pub open: u16,
    /// Jobs may be in the lanes below this number: at least `open`, and more while lanes that take no new jobs
    /// still hold some.
    pub used: u16,
}

impl LaneCounts {
    /// The default: one lane.
    pub const ONE: Self = Self { open: 1, used: 1 };
}

impl Default for LaneCounts {
    fn default() -> Self {
        Self::ONE
    }
}

/// The row of a queue in the table of lanes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub struct LaneRow {
    /// How many lanes the queue has.
    pub counts: LaneCounts,
    /// Increases whenever `open` is set; unique among all rows of a deployment. 0 if the queue has no row.
    pub epoch: u64,
    /// By which numbers of lanes its keys are placed.
    pub numbers: LaneNumbers,
}

impl LaneRow {
    /// How the keys of its queue are placed.
    pub const fn placement(&self) -> KeyPlacement {
        KeyPlacement {
            epoch: self.epoch,
            numbers: self.numbers,
            has_row: true,
        }
    }
}

/// The number of jobs that a lane of a queue with so many lanes may hold, if the queue may hold `limit`. Counting all
/// lanes would take a call to each, and would not be atomic.
pub fn share_of(lane: u16, lanes: u16, limit: u64) -> u64 {
    // A damaged row may have no lanes.
    let (lane, lanes) = (u64::from(lane), u64::from(lanes.max(1)));
    limit / lanes + u64::from(lane < limit % lanes)
}
