//! Schedules: at which times a job is published again and again. Such a time is a tick.
//!
//! A tick is calculated from the rule alone, so that all processes get the same ticks, whenever they calculate.

mod catch_up;
mod overlap;
#[cfg(feature = "cron")]
mod plan;
#[cfg(feature = "cron")]
mod rule;

pub use catch_up::{CatchUp, CatchUpRule};
pub use overlap::Overlap;
#[cfg(feature = "cron")]
pub use plan::{MISSED_AFTER_MS, TickPlan};
#[cfg(feature = "cron")]
pub use rule::{EVERY_MS_MIN, InvalidSchedule, ScheduleRule, TickTimes};

#[cfg(feature = "cron")]
#[cfg(test)]
mod tests;
