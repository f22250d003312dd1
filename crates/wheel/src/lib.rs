//! Runs tasks at their times inside a process: a hierarchical timing wheel, executors by type of task, and a file or a
//! hash of Redis that keeps the tasks over restarts.
//!
//! - [`Wheel`] schedules, saves, runs and cancels tasks.
//! - [`TimingWheel`] is the data structure alone, without clock, threads and tasks.
//!
//! It is for delays that may end with the process and its disk: for timers that several processes share, or that must
//! not be lost with a machine, use a queue of Tidegate.
#![warn(missing_docs)]

mod builder;
mod error;
mod executors;
mod persistence;
mod runs;
mod slots;
mod task;
mod ticks;
mod timers;
mod timing_wheel;
mod wheel;

pub use builder::WheelBuilder;
pub use error::{ScheduleError, StartError};
#[cfg(feature = "redis")]
pub use persistence::Redis;
pub use persistence::{File, Memory, Persistence, SavedTask};
pub use task::{Completion, Executor, TaskId, TimedTask};
pub use timing_wheel::{TimerKey, TimingWheel};
pub use wheel::Wheel;

/// The example of the README compiles.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
