//! The answers of lanes to publishes of jobs with keys.

use tidegate_core::JobId;
use tidegate_store::{PublishJob, PublishRefusal, StoredJob};

use super::Published;
use crate::error::EngineError;
use crate::pool::Pool;

/// The answer of a lane.
pub(super) struct LaneAnswer {
    pub(super) published: Published,
    /// The jobs that are done and to be replaced, with the places of their successors in the call.
    pub(super) done: Vec<(usize, JobId)>,
}

impl LaneAnswer {
    /// Whether a lane that was asked has none of the jobs.
    pub(super) fn is_empty(&self) -> bool {
        self.published.jobs.iter().all(is_absent)
    }

    /// The jobs that are done and to be replaced. `jobs` holds the jobs of the call, each with its place in the request.
    pub(super) fn done_jobs<'a>(
        &self,
        pool: &'a Pool,
        jobs: &[(usize, PublishJob)],
    ) -> Vec<DoneJob<'a>> {
        let done = self.done.iter().map(|(place, id)| DoneJob {
            pool,
            id: *id,
            index: jobs[*place].0,
        });
        done.collect()
    }
}

/// A job that is done, in a lane that was asked. It is to be replaced.
pub(super) struct DoneJob<'a> {
    pub(super) pool: &'a Pool,
    pub(super) id: JobId,
    /// The place of its successor in the request.
    pub(super) index: usize,
}

/// Whether a lane that was asked does not have the job.
pub(super) const fn is_absent(result: &Result<StoredJob, EngineError>) -> bool {
    matches!(
        result,
        Err(EngineError::QueueFull | EngineError::QueueClosed)
    )
}

/// Whether a lane that was asked has stored nothing, as it has no unfinished job of the call.
pub(super) fn stores_none(jobs: &[Result<StoredJob, PublishRefusal>]) -> bool {
    let is_absent = |job: &Result<StoredJob, PublishRefusal>| {
        matches!(
            job,
            Err(PublishRefusal::QueueFull | PublishRefusal::IsDone(_))
        )
    };
    jobs.iter().all(is_absent)
}

/// The jobs that a lane reports as done, with the places of their successors in the call.
pub(super) fn done_of(jobs: &[Result<StoredJob, PublishRefusal>]) -> Vec<(usize, JobId)> {
    let jobs = jobs.iter().enumerate();
    let done = jobs.filter_map(|(place, job)| match job {
        Err(PublishRefusal::IsDone(id)) => Some((place, *id)),
        _ => None,
    });
    done.collect()
}
