//! Errors of a wheel.

use std::io;
use std::time::Duration;

/// Why a wheel does not start.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StartError {
    /// The tick is not between 1 ms and 1 min.
    #[error("the tick is {0:?}: choose one between 1ms and 1min")]
    TickOutOfRange(Duration),
    /// No run is allowed at a time.
    #[error("concurrency is 0: no task could run")]
    NoConcurrency,
    /// Two executors have tasks with the same [`TYPE`](crate::TimedTask::TYPE).
    #[error("there are two executors for tasks of type {0:?}")]
    TwoExecutors(&'static str),
    /// A type has a name that is too long.
    #[error("the name of the task type {0:?} has more than 255 bytes")]
    TypeTooLong(&'static str),
    /// Saved tasks could not run.
    #[error(
        "{count} saved tasks have type {task_type:?}, which has no executor: add it to the builder"
    )]
    NoExecutor {
        /// The type.
        task_type: String,
        /// How many tasks have it.
        count: usize,
    },
    /// Tasks cannot be loaded, or there is no thread for the clock.
    #[error("failed to start the wheel: {0}")]
    Io(#[from] io::Error),
}

/// Why a task is not scheduled.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ScheduleError {
    /// Its type has no executor.
    #[error("task type {0:?} has no executor: add it to the builder")]
    NoExecutor(&'static str),
    /// It cannot be serialized.
    #[error("failed to serialize a task of type {task_type:?}: {error}")]
    NotSerializable {
        /// Its type.
        task_type: &'static str,
        /// The error of serde.
        error: serde_json::Error,
    },
    /// It is larger than 16 MiB as JSON.
    #[error("a task of type {task_type:?} has {bytes} bytes as JSON: at most 16 MiB are possible")]
    TooLarge {
        /// Its type.
        task_type: &'static str,
        /// Its size.
        bytes: usize,
    },
    /// It is due later than the clock can represent.
    #[error("the delay {0:?} is too long")]
    TooFar(Duration),
    /// It could not be saved.
    #[error("failed to save a task: {0}")]
    NotSaved(#[from] io::Error),
    /// The wheel has stopped.
    #[error("the wheel has stopped")]
    Stopped,
}
