//! The policy of a queue: defaults for its jobs, and what the queue accepts and delivers.

mod bounds;
mod queue_policy;
mod retry;
mod text;

pub use bounds::InvalidPolicy;
pub use queue_policy::{Pause, QueuePolicy};
pub use retry::RetryPolicy;
pub use text::UnreadablePolicy;
