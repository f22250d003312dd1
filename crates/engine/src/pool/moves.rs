//! A pool that moves: its verbs for one job, and how other processes learn of the move.

use std::sync::Arc;

use tidegate_core::v1::consume::Outcome;
use tidegate_core::{Job, JobState, QueueKey};
use tidegate_store::{
    CancelOutcome, JobReference, JobSurroundings, PeekedJob, StoreError, WaitingOutcome,
};

use super::Pool;
use crate::error::EngineError;

/// The answer of a deployment to a verb for one job.
pub(crate) trait JobAnswer {
    /// Whether the deployment has no such job.
    fn is_gone(&self) -> bool;

    /// Whether the job is done there: the target of a move may have the next job with its key.
    fn is_done(&self) -> bool;
}

impl Pool {
    /// Changes a job, in whichever deployment it is.
    ///
    /// # Errors
    /// Redis gave no answer; the job may have been changed. Or the pool moves to a deployment that this process does
    /// not know, and may have the job there.
    pub(crate) async fn change_job<'a, T, F>(
        self: &'a Arc<Self>,
        queue: &QueueKey,
        job: impl Into<JobReference>,
        verb: impl Fn(&'a Arc<Self>) -> F,
    ) -> Result<T, EngineError>
    where
        T: JobAnswer,
        F: Future<Output = Result<T, StoreError>>,
    {
        let here = verb(self).await?;
        let target = if here.is_gone() {
            self.next_deployment(queue, job).await?
        } else {
            self.target().filter(|_| here.is_done())
        };
        match target {
            None => Ok(here),
            Some(target) => Ok(in_target(here, verb(target)).await?),
        }
    }

    /// Reads a job, in whichever deployment it is.
    ///
    /// # Errors
    /// Redis gave no answer.
    pub(crate) async fn read_job<'a, T, F>(
        &'a self,
        verb: impl Fn(&'a Self) -> F,
    ) -> Result<T, EngineError>
    where
        T: JobAnswer,
        F: Future<Output = Result<T, StoreError>>,
    {
        let here = verb(self).await?;
        match self.target() {
            Some(target) if here.is_gone() || here.is_done() => {
                Ok(in_target(here, verb(target)).await?)
            }
            _ => Ok(here),
        }
    }

    /// The deployment that may have a job which this one lacks, and others of the same call; `None` = there is none.
    ///
    /// # Errors
    /// Redis gave no answer. Or the pool moves, and the settings of this process do not say where to.
    pub(crate) async fn next_deployment(
        &self,
        queue: &QueueKey,
        job: impl Into<JobReference>,
    ) -> Result<Option<&Arc<Self>>, EngineError> {
        if let Some(target) = self.target() {
            return Ok(Some(target));
        }
        match Box::pin(self.store.moves_elsewhere(queue, job.into())).await? {
            true => Err(EngineError::MoveUnknown),
            false => Ok(None),
        }
    }

    /// Before the first job is stored in the target: records in the own deployment that the pool moves.
    pub(crate) async fn record_move(&self, target: &Self) {
        let recording = self.move_recorded.get_or_init(|| async {
            // It was left over if the pool has moved the other way before.
            let cleared = target.store.clear_moves_to().await;
            let recorded = self.store.set_moves_to(&target.name).await;
            if let Err(error) = cleared.and(recorded) {
                tracing::warn!(
                    pool = &*self.name,
                    %error,
                    "failed to record in redis that the pool moves: acks through processes without migrate_to have no effect"
                );
            }
        });
        Box::pin(recording).await;
    }
}

/// The answer of the target, unless it does not have the job.
async fn in_target<T: JobAnswer>(
    here: T,
    verb: impl Future<Output = Result<T, StoreError>>,
) -> Result<T, StoreError> {
    let there = verb.await?;
    Ok(if there.is_gone() { here } else { there })
}

impl<T> JobAnswer for WaitingOutcome<T> {
    fn is_gone(&self) -> bool {
        matches!(self, Self::AlreadyGone)
    }

    fn is_done(&self) -> bool {
        matches!(self, Self::NotWaiting(JobState::Done))
    }
}

impl JobAnswer for CancelOutcome {
    fn is_gone(&self) -> bool {
        *self == Self::AlreadyGone
    }

    fn is_done(&self) -> bool {
        matches!(self, Self::AlreadyDone(_))
    }
}

impl JobAnswer for Outcome {
    fn is_gone(&self) -> bool {
        *self == Self::Gone
    }

    /// An ack names a job by its id, which no other job has.
    fn is_done(&self) -> bool {
        false
    }
}

/// A job that was read.
pub(crate) trait AsJob {
    fn as_job(&self) -> &Job;
}

impl AsJob for PeekedJob {
    fn as_job(&self) -> &Job {
        &self.job
    }
}

impl AsJob for JobSurroundings {
    fn as_job(&self) -> &Job {
        &self.job
    }
}

impl<T: AsJob> JobAnswer for Option<T> {
    fn is_gone(&self) -> bool {
        self.is_none()
    }

    fn is_done(&self) -> bool {
        self.as_ref()
            .is_some_and(|it| it.as_job().state == JobState::Done)
    }
}
