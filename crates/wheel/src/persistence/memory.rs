//! Nothing survives a restart.

use std::future::{Future, ready};
use std::io;

use super::saved_task::{Persistence, SavedTask};
use crate::task::TaskId;

/// Keeps tasks in the wheel only: they are lost when the process ends.
#[derive(Debug, Clone, Copy, Default)]
pub struct Memory;

impl Persistence for Memory {
    fn save(&self, _: SavedTask) -> impl Future<Output = io::Result<()>> + Send + 'static {
        ready(Ok(()))
    }

    fn delete(&self, _: TaskId) -> impl Future<Output = io::Result<()>> + Send + 'static {
        ready(Ok(()))
    }

    fn load(&self) -> impl Future<Output = io::Result<Vec<SavedTask>>> + Send {
        ready(Ok(Vec::new()))
    }

    fn close(&self) -> impl Future<Output = io::Result<()>> + Send {
        ready(Ok(()))
    }
}
