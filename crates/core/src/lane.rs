//! Lanes: the parts of a queue, each in a bucket of its own.

use std::time::Duration;

use crate::QueueKey;

/// Each API looks once in this time whether closed lanes are empty, and takes those out of use. A lane that is closed and
/// empty is out of use after two such times.
pub const LANES_SETTLE_INTERVAL: Duration = Duration::from_secs(5);

/// One lane of a queue. Most queues have lane 0 only, so where a lane is asked for a queue alone stands
/// for its lane 0.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Lane<'a> {
    /// The queue.
    pub queue: &'a QueueKey,
    /// Which of its lanes, counted from 0.
    pub number: u16,
}

impl QueueKey {
    /// One of the queue's lanes.
    #[must_use]
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
    /// New jobs go to lanes below this number; at least 1.
    pub open: u16,
    /// Jobs may be in lanes below this number: never less than `open`, and more while lanes that were
    /// closed still hold jobs.
    pub used: u16,
}

impl LaneCounts {
    /// What a queue has unless it was given more.
    pub const ONE: Self = Self { open: 1, used: 1 };
}

impl Default for LaneCounts {
    fn default() -> Self {
        Self::ONE
    }
}

/// What the table of lanes says of a queue.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub struct LaneRow {
    /// How many lanes the queue has.
    pub counts: LaneCounts,
    /// Grows whenever `open` is set; no two rows of a deployment ever have the same. 0 if the queue has no row.
    pub epoch: u64,
}
