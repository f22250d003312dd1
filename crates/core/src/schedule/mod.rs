//! Schedules: at which times a job is published again and again. Such a time is a tick.
//!
//! A tick is calculated from the rule alone, so that all processes get the same ticks, whenever they calculate.

mod catch_up;
mod overlap;
mod rule;

pub use catch_up::{CatchUp, CatchUpRule, MISSED_AFTER_MS, TickPlan};
pub use overlap::Overlap;
pub use rule::{EVERY_MS_MIN, InvalidSchedule, ScheduleRule, TickTimes};

#[cfg(test)]
mod tests;
