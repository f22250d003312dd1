//! A pool that moves: its verbs for one job, and how other processes learn of the move.

use std::sync::Arc;

use tidegate_core::v1::consume::Outcome;
use tidegate_core::{KeyHash, KeyPlacement, QueueKey};
use tidegate_store::{CancelOutcome, JobEnd, JobReference, KeyPlace, StoreError, WaitingOutcome};

use super::Pool;
use crate::error::EngineError;
use crate::queue::lanes::PLACEMENTS_MAX;

/// The answer of a deployment to a verb for one job.
pub(crate) trait JobAnswer {
    /// Whether the deployment, or a lane of it, has no such job.
    fn is_gone(&self) -> bool;
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
        verb: impl Fn(&'a Arc<Self>, JobReference) -> F,
    ) -> Result<T, EngineError>
    where
        T: JobAnswer,
        F: Future<Output = Result<T, StoreError>>,
    {
        let job = job.into();
        let here = self.in_lanes(queue, job, |job| verb(self, job)).await?;
        if !here.is_gone() {
            return Ok(here);
        }
        match self.next_deployment(queue, job).await? {
            None => Ok(here),
            Some(target) => {
                let there = target.in_lanes(queue, job, |job| verb(target, job));
                Ok(there.await?)
            }
        }
    }

    /// Reads a job, in whichever deployment it is.
    ///
    /// # Errors
    /// Redis gave no answer.
    pub(crate) async fn read_job<'a, T, F>(
        &'a self,
        queue: &QueueKey,
        job: JobReference,
        verb: impl Fn(&'a Self, JobReference) -> F,
    ) -> Result<T, EngineError>
    where
        T: JobAnswer,
        F: Future<Output = Result<T, StoreError>>,
    {
        let here = self.in_lanes(queue, job, |job| verb(self, job)).await?;
        match self.target() {
            Some(target) if here.is_gone() => {
                let there = target.in_lanes(queue, job, |job| verb(target, job));
                Ok(there.await?)
            }
            _ => Ok(here),
        }
    }

    /// Asks the lanes of this deployment in which a job may be, one after the other, until one has it.
    ///
    /// # Errors
    /// The store failed.
    pub(crate) async fn in_lanes<T, F>(
        &self,
        queue: &QueueKey,
        job: JobReference,
        verb: impl Fn(JobReference) -> F,
    ) -> Result<T, StoreError>
    where
        T: JobAnswer,
        F: Future<Output = Result<T, StoreError>>,
    {
        let JobReference::Key(key, _) = job else {
            return verb(job).await;
        };
        let mut renewals_left = PLACEMENTS_MAX;
        loop {
            let placement = self.lanes.placement(queue);
            match in_lanes_of(key, placement, &verb).await {
                Err(StoreError::PlacementStale(floor)) if renewals_left > 0 => {
                    renewals_left -= 1;
                    Box::pin(self.lanes.renew(queue, placement, floor)).await?;
                }
                answer => return answer,
            }
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

/// Asks the lanes in which a key may be.
async fn in_lanes_of<T, F>(
    key: KeyHash,
    placement: KeyPlacement,
    verb: &impl Fn(JobReference) -> F,
) -> Result<T, StoreError>
where
    T: JobAnswer,
    F: Future<Output = Result<T, StoreError>>,
{
    let in_lane = |lane| verb(JobReference::Key(key, KeyPlace { lane, placement }));
    if !placement.is_first_lane() {
        for lane in placement.former_lanes_of(key.lane_hash()) {
            let there = in_lane(lane).await?;
            if !there.is_gone() {
                return Ok(there);
            }
        }
    }
    in_lane(placement.lane_of(key.lane_hash())).await
}

impl<T> JobAnswer for WaitingOutcome<T> {
    fn is_gone(&self) -> bool {
        matches!(self, Self::AlreadyGone)
    }
}

impl JobAnswer for CancelOutcome {
    fn is_gone(&self) -> bool {
        *self == Self::AlreadyGone
    }
}

impl JobAnswer for JobEnd {
    fn is_gone(&self) -> bool {
        matches!(self, Self::AlreadyGone)
    }
}

impl JobAnswer for Outcome {
    fn is_gone(&self) -> bool {
        *self == Self::Gone
    }
}

impl<T> JobAnswer for Option<T> {
    fn is_gone(&self) -> bool {
        self.is_none()
    }
}
