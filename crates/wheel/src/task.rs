//! Tasks, and their executors.

use std::fmt;
use std::future::Future;
use std::time::Duration;

use serde::Serialize;
use serde::de::DeserializeOwned;
use ulid::Ulid;

/// Something to do at a time. It is serialized as JSON while it waits.
///
/// ```
/// use serde::{Deserialize, Serialize};
/// use tidegate_wheel::TimedTask;
///
/// #[derive(Serialize, Deserialize)]
/// struct CloseOrder {
///     order: u64,
/// }
///
/// impl TimedTask for CloseOrder {
///     const TYPE: &'static str = "close-order";
/// }
/// ```
pub trait TimedTask: Serialize + DeserializeOwned + Send + 'static {
    /// Names the type among saved tasks, at most 255 bytes. Do not change it while tasks of the type are saved.
    const TYPE: &'static str;
}

/// Runs the tasks of a type. Functions and closures `Fn(T) -> impl Future` are executors.
///
/// A run should not block its thread: use `tokio::task::spawn_blocking` for work that does. The clock of the wheel has
/// a thread of its own, so it never waits for runs.
pub trait Executor<T: TimedTask>: Send + Sync + 'static {
    /// Runs a task. After a panic, which is logged, the task runs again after
    /// [`panic_delay`](crate::WheelBuilder::panic_delay): its work may not be done.
    fn execute(&self, task: T) -> impl Future<Output = Completion> + Send;
}

impl<T, F, R> Executor<T> for F
where
    T: TimedTask,
    F: Fn(T) -> R + Send + Sync + 'static,
    R: Future + Send,
    R::Output: Into<Completion>,
{
    async fn execute(&self, task: T) -> Completion {
        self(task).await.into()
    }
}

/// The outcome of a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Completion {
    /// It is done, and is deleted.
    Done,
    /// It runs again after this time, with the same id.
    RunAgainIn(Duration),
}

impl From<()> for Completion {
    fn from((): ()) -> Self {
        Self::Done
    }
}

/// The id of a task: unique, also among all tasks before a restart.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct TaskId(Ulid);

impl TaskId {
    pub(crate) fn new() -> Self {
        Self(Ulid::generate())
    }

    /// Returns the id as 16 bytes, for a [`Persistence`](crate::Persistence).
    #[must_use]
    pub fn to_bytes(self) -> [u8; 16] {
        self.0.to_bytes()
    }

    /// Returns the id with these bytes.
    #[must_use]
    pub fn from_bytes(bytes: [u8; 16]) -> Self {
        Self(Ulid::from_bytes(bytes))
    }
}

impl fmt::Display for TaskId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}
