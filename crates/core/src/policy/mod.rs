//! The policy of a queue: defaults for its jobs, and what the queue accepts and delivers.

mod bounds;
mod fields;
mod retry;
mod text;

pub use bounds::InvalidPolicy;
pub use fields::Policy;
pub use retry::RetryPolicy;
pub use text::UnreadablePolicy;
