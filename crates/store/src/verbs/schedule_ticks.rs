//! The ticks of schedules in a bucket, and the outcomes of their jobs.

use tidegate_core::v1::publish::PublishResult;
use tidegate_core::{NewJob, QueueKey};

use super::publish_reply::PublishRefusal;
use crate::error::StoreError;
use crate::schedules::ScheduleDefinition;
use crate::table::NamespacedName;

/// Maximum number of schedules that one call returns. Publishing the jobs of so many blocks Redis for some
/// milliseconds.
pub const SCHEDULES_DUE_MAX: u64 = 128;

/// The tick of a schedule, as it is in a bucket.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ScheduleTick {
    /// The schedule.
    pub key: NamespacedName,
    /// The revision of the definition that the tick was calculated for, as it is stored; empty = not known.
    pub revision: Vec<u8>,
    /// The tick, in ms since 1970; `None` = not known.
    pub tick_ms: Option<u64>,
}

/// The schedules of a bucket whose ticks are due.
#[derive(Debug, Clone, PartialEq, Eq)]
#[must_use]
pub enum SchedulesDue {
    /// The caller leads the bucket.
    Some {
        /// The time on the clock of Redis, in ms since 1970.
        now_ms: u64,
        /// The time until the ticks of a further namespace are due, in ms, if there are any.
        next_in_ms: Option<u64>,
        /// The schedules, up to [`SCHEDULES_DUE_MAX`].
        ticks: Vec<ScheduleTick>,
    },
    /// The caller does not lead the bucket.
    NotLeading,
}

/// The job to publish for a tick.
#[derive(Debug, Clone)]
pub struct TickPublish<'a> {
    /// The tick, as it was read.
    pub tick: &'a ScheduleTick,
    /// The queue of the schedule.
    pub queue: QueueKey,
    /// The definition with the revision that the bucket knows.
    pub definition: &'a ScheduleDefinition,
    /// The tick for which a job is published, in ms since 1970; `None` = the ticks that are due are left out.
    pub publish_ms: Option<u64>,
    /// The next tick; `None` = there is none.
    pub next_ms: Option<u64>,
    /// How many jobs the queue may have; `None` = any number.
    pub max_jobs: Option<u64>,
}

impl TickPublish<'_> {
    pub(super) fn job(&self) -> Result<NewJob, StoreError> {
        let tick_ms = self.publish_ms.unwrap_or_default();
        let job = self.definition.job_at(&self.tick.key, &self.queue, tick_ms);
        job.check()?;
        Ok(job)
    }

    /// Checks the job: an invalid job fails a call for all of its ticks.
    ///
    /// # Errors
    /// The job is not valid.
    pub fn check(&self) -> Result<(), StoreError> {
        self.job().map(drop)
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[must_use]
pub enum TickOutcome {
    /// The job was published, or refused.
    Published(Result<PublishResult, PublishRefusal>),
    /// No job was to be published.
    LeftOut,
    /// The tick or the definition have changed. Nothing changed.
    Moved,
}

/// The outcomes of several ticks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PublishedTicks {
    /// The outcome of each, in their order.
    pub outcomes: Vec<TickOutcome>,
    /// More ticks of the bucket are due.
    pub more: bool,
    /// The time until the ticks of a further namespace are due, in ms, if there are any.
    pub next_in_ms: Option<u64>,
}

/// Reads a tick as scripts store it; `None` if it is missing or damaged. They compare it as text.
pub(super) fn read_tick(text: &[u8]) -> Option<u64> {
    let text = std::str::from_utf8(text).ok()?;
    let tick_ms: Option<u64> = text.parse().ok();
    tick_ms.filter(|tick_ms| tick_ms.to_string() == text)
}
