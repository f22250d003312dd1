//! Publishing in a pool that moves: new jobs are stored in its target. A key has one job in both deployments together.

use std::sync::Arc;

use tidegate_core::v1::publish::PublishResult;
use tidegate_core::{JobState, QueueKey};
use tidegate_store::{PublishJob, StoredJob};

use super::call::keyed_call;
use super::{JobsToPublish, Published};
use crate::error::EngineError;
use crate::pool::Pool;

impl Pool {
    /// Publishes a job whose key this deployment has here, and others in `target`.
    pub(super) async fn publish_moving(
        self: &Arc<Self>,
        target: &Arc<Self>,
        queue: &QueueKey,
        publish: JobsToPublish,
    ) -> Result<Published, EngineError> {
        self.record_move(target).await;
        if !publish.jobs.iter().any(PublishJob::is_keyed) {
            return self.publish_unkeyed_moving(target, queue, publish).await;
        }
        if publish.atomic {
            self.check_has_none(queue, &publish.jobs).await?;
            return target.publish_here(queue, publish).await;
        }
        // The own deployment changes the jobs that it has, and creates none: there, no job has a place.
        let no_new = keyed_call(Some(0), false);
        let mut published = self
            .publish_keyed_alone(queue, publish.clone(), no_new)
            .await?;
        let mut absent = Vec::new();
        for (index, (job, result)) in publish.jobs.into_iter().zip(&published.jobs).enumerate() {
            if *result == Err(EngineError::QueueFull)
                || target.has_newer(queue, &job, *result).await?
            {
                absent.push((index, job));
            }
        }
        if absent.is_empty() {
            return Ok(published);
        }
        let (places, jobs): (Vec<usize>, Vec<PublishJob>) = absent.into_iter().unzip();
        let all_new = places.len() == published.jobs.len();
        let new = JobsToPublish { jobs, ..publish };
        let new = target
            .publish_here(queue, new)
            .await
            // Nothing was stored there, but jobs may have been changed here.
            .map_err(|error| match all_new {
                true => error,
                false => EngineError::StorageFailed,
            })?;
        for (place, result) in places.into_iter().zip(new.jobs) {
            published.jobs[place] = result;
        }
        if all_new || published.durability.is_ok() {
            published.durability = new.durability;
        }
        Ok(published)
    }

    async fn publish_unkeyed_moving(
        self: &Arc<Self>,
        target: &Arc<Self>,
        queue: &QueueKey,
        publish: JobsToPublish,
    ) -> Result<Published, EngineError> {
        let replaces = publish.replaces;
        let published = target.publish_here(queue, publish).await?;
        if let (Some(replaced), Ok(_)) = (replaces, &published.durability) {
            // It may be gone, or the target had it: the answer does not matter.
            let _ = self.store.ack(queue, replaced, None).await?;
        }
        Ok(published)
    }

    /// Whether this target has a job with the key of `job`, beside the job that is done in the other deployment.
    /// `result` is the answer of that deployment.
    async fn has_newer(
        &self,
        queue: &QueueKey,
        job: &PublishJob,
        result: Result<StoredJob, EngineError>,
    ) -> Result<bool, EngineError> {
        let is_done = result.is_ok_and(|stored| {
            stored.outcome == PublishResult::Exists && stored.state == Some(JobState::Done)
        });
        match job.key() {
            Some(key) if is_done => Ok(self.store.peek_job(queue, key).await?.is_some()),
            _ => Ok(false),
        }
    }

    /// While a pool moves, an atomic call uses its target alone.
    ///
    /// # Errors
    /// The own deployment has a job with one of these keys.
    async fn check_has_none(
        &self,
        queue: &QueueKey,
        jobs: &[PublishJob],
    ) -> Result<(), EngineError> {
        for key in jobs.iter().filter_map(PublishJob::key) {
            if self.store.peek_job(queue, key).await?.is_some() {
                return Err(EngineError::PoolMoves);
            }
        }
        Ok(())
    }
}
