//! Where jobs come from.

pub(crate) mod lmstfy;
pub(crate) mod tidegate;

use std::future::ready;
use std::time::Duration;

use futures_util::future::BoxFuture;

use crate::job::{RelayJob, SourceReceipt};

/// A call to the source failed.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub(crate) struct SourceError(pub(crate) String);

/// Jobs that a call has reserved.
#[derive(Debug, Default)]
pub(crate) struct SourceJobs {
    pub(crate) jobs: Vec<RelayJob>,
    /// Jobs that cannot be passed on, and why.
    pub(crate) unreadable: Vec<SourceError>,
}

/// Sorts jobs by whether they could be read.
impl FromIterator<Result<RelayJob, SourceError>> for SourceJobs {
    fn from_iter<T: IntoIterator<Item = Result<RelayJob, SourceError>>>(jobs: T) -> Self {
        let mut reserved = Self::default();
        for job in jobs {
            match job {
                Ok(job) => reserved.jobs.push(job),
                Err(error) => reserved.unreadable.push(error),
            }
        }
        reserved
    }
}

/// A job whose delivery was rejected.
#[derive(Debug)]
pub(crate) struct FailedDelivery {
    pub(crate) receipt: SourceReceipt,
    pub(crate) error: String,
    pub(crate) retry_in: Option<Duration>,
    pub(crate) is_permanent: bool,
}

/// A queue whose jobs are passed on.
pub(crate) trait RelaySource: Send + Sync {
    /// Whether a job can be given back without counting a failure. If not, a relay holds the jobs of a sink that is
    /// unavailable, and a call of [`RelaySource::reserve`] must not be dropped.
    fn can_release(&self) -> bool;

    /// Reserves up to so many jobs, and waits some time for the first.
    fn reserve(&self, max_jobs: usize) -> BoxFuture<'_, Result<SourceJobs, SourceError>>;

    /// Returns the jobs that are still there: clients may have deleted jobs while the relay held them.
    fn existing(&self, jobs: Vec<RelayJob>) -> BoxFuture<'_, Vec<RelayJob>> {
        Box::pin(ready(jobs))
    }

    /// Acknowledges jobs.
    fn ack(&self, receipts: Vec<SourceReceipt>) -> BoxFuture<'_, Result<(), SourceError>>;

    /// Reports jobs whose delivery was rejected.
    fn fail(&self, failed: Vec<FailedDelivery>) -> BoxFuture<'_, Result<(), SourceError>>;

    /// Gives jobs back, which are due again after the delay.
    fn release(
        &self,
        receipts: Vec<SourceReceipt>,
        delay: Duration,
    ) -> BoxFuture<'_, Result<(), SourceError>>;
}
