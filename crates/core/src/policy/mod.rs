//! The policy of a queue: defaults for its jobs, and limits for publishes and deliveries.

mod bounds;
mod fields;
mod groups;
mod rate;
mod retry;
mod text;

pub use bounds::{InvalidPolicy, UnreadablePolicy};
pub use fields::Policy;
pub use groups::GroupPolicy;
pub use rate::Rate;
pub use retry::RetryPolicy;
