//! Where tasks are kept over restarts.

mod file;
mod frame;
mod log;
mod memory;
mod saved_task;

pub use file::File;
pub use memory::Memory;
pub use saved_task::{Persistence, SavedTask};
