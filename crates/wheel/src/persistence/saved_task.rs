//! The interface between a wheel and a persistence.

use std::future::Future;
use std::io;
use std::sync::Arc;
use std::time::SystemTime;

use crate::task::{TaskId, TimedTask};

/// A task that waits.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SavedTask {
    /// Its id.
    pub id: TaskId,
    /// [`TimedTask::TYPE`].
    pub task_type: Arc<str>,
    /// When it is due, with a resolution of 1 ms.
    pub due: SystemTime,
    /// The task as JSON.
    pub payload: Arc<[u8]>,
}

impl SavedTask {
    /// Reads the task. `None` if it is of another type.
    ///
    /// # Errors
    ///
    /// If its JSON does not fit the type.
    pub fn read<T: TimedTask>(&self) -> Option<Result<T, serde_json::Error>> {
        (*self.task_type == *T::TYPE).then(|| serde_json::from_slice(&self.payload))
    }
}

/// Keeps tasks until they have run. A task is deleted after its run, so a task that was running when the process died
/// runs again.
///
/// `save` and `delete` must take effect in the order of the calls, not in the order in which the futures are polled,
/// and also if a future is dropped.
pub trait Persistence: Send + Sync + 'static {
    /// Saves a task, or replaces the task with its id. The future is ready once the task survives a restart.
    fn save(&self, task: SavedTask) -> impl Future<Output = io::Result<()>> + Send + 'static;

    /// Deletes a task; it is no error if there is none.
    fn delete(&self, id: TaskId) -> impl Future<Output = io::Result<()>> + Send + 'static;

    /// Returns all tasks. A wheel calls it once, before any other function.
    fn load(&self) -> impl Future<Output = io::Result<Vec<SavedTask>>> + Send;

    /// Waits until everything before is saved, when the wheel stops.
    fn close(&self) -> impl Future<Output = io::Result<()>> + Send;
}
