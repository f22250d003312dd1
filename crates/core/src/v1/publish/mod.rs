//! Publishing jobs.

mod answer;
mod batch;
mod options;

pub use answer::{BatchAnswer, BatchItemResult, PublishResult, PublishedJob};
pub use batch::{BatchBody, BatchItem};
pub use options::{DueTime, JobOptions};
