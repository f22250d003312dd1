//! Publishing jobs.

mod batch;
mod batch_job;
mod options;
mod single;

pub use batch::BatchPublish;
pub use batch_job::BatchJob;
pub(crate) use batch_job::TRACE_PARENT;
pub use single::Publish;
