//! Where tasks are kept over restarts.

mod file;
mod frame;
mod log;
mod memory;
#[cfg(feature = "redis")]
mod redis;
mod saved_task;

pub use file::File;
pub use memory::Memory;
#[cfg(feature = "redis")]
pub use redis::Redis;
pub use saved_task::{Persistence, SavedTask};
