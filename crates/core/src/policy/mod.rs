//! The policy of a queue: defaults for its jobs, and limits for publishes and deliveries.

mod bounds;
mod fields;
mod groups;
mod retry;
mod text;

pub use bounds::InvalidPolicy;
pub use fields::Policy;
pub use groups::GroupPolicy;
pub use retry::RetryPolicy;
pub use text::UnreadablePolicy;
