//! The arguments of handlers besides their tasks.

use tokio_util::sync::CancellationToken;

use super::data::{Data, MissingData, RequiredData};
use super::job::Job;

/// An argument of a handler behind the task: a [`Job`], [`Data`], or the token of
/// [`Job::cancelled`](crate::Job::cancelled).
pub trait FromJob: Sized + Send + 'static {
    /// Takes the argument from the job.
    ///
    /// # Errors
    /// The worker does not have the data. Workers check this when they start.
    fn from_job(job: &Job) -> Result<Self, MissingData>;

    /// The data that the worker must have.
    #[must_use]
    fn required_data() -> Option<RequiredData> {
        None
    }
}

impl FromJob for Job {
    fn from_job(job: &Job) -> Result<Self, MissingData> {
        Ok(job.clone())
    }
}

impl FromJob for CancellationToken {
    fn from_job(job: &Job) -> Result<Self, MissingData> {
        Ok(job.cancelled().clone())
    }
}

impl<T: Send + Sync + 'static> FromJob for Data<T> {
    fn from_job(job: &Job) -> Result<Self, MissingData> {
        job.data().get()
    }

    fn required_data() -> Option<RequiredData> {
        Some(RequiredData::of::<T>())
    }
}
