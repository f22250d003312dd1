//! Publishing jobs.

mod answer;
mod batch;
mod content;
mod options;

pub use answer::{BatchAnswer, BatchItemResult, PublishResult, PublishedJob};
pub use batch::{BatchBody, BatchItem};
pub use content::JobContent;
pub use options::{DueTime, JobOptions};
