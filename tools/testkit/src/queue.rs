//! Requests to a queue, and their answers.

mod client;
mod consume;
mod native;
mod policy;
mod publish;

pub use client::{QueueClient, RequestError};
pub use consume::{ConsumeBuilder, ReceivedJob};
pub use publish::{PublishBuilder, PublishBulkBuilder};
