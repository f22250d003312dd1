//! Schedules: jobs that are published again and again.

mod config;
mod view;

pub use config::{Schedule, ScheduleJob};
pub use view::{NextRunsQuery, ScheduleDetails, ScheduleRuns};
