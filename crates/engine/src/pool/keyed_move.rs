//! Publishing jobs with keys in a pool that moves: a key has one job in both deployments together.

use tidegate_core::{JobState, QueueKey};
use tidegate_store::{KeyedJob, KeyedOutcome, KeyedResult};

use super::Pool;
use super::keyed::StoredKeyed;
use crate::batcher::keyed_terms;
use crate::durability::DurabilityTarget;
use crate::error::EngineError;

impl Pool {
    /// Publishes a job whose key this deployment has here, and others in `target`.
    pub(super) async fn publish_keyed_moving(
        &self,
        target: &Self,
        queue: &QueueKey,
        jobs: Vec<KeyedJob>,
        atomic: bool,
        durability_target: DurabilityTarget,
    ) -> Result<StoredKeyed, EngineError> {
        self.record_move(target).await;
        if atomic {
            self.check_has_none(queue, &jobs).await?;
            return target
                .publish_keyed_here(queue, jobs, true, durability_target)
                .await;
        }
        // The own deployment changes the jobs that it has, and creates none: there, no job has a place.
        let own = self
            .publish_keyed_alone(
                queue,
                jobs.clone(),
                keyed_terms(Some(0), false),
                durability_target,
            )
            .await?;
        let StoredKeyed::Done {
            mut results,
            durability,
        } = own
        else {
            return Ok(own);
        };
        let mut absent = Vec::new();
        for (index, (job, result)) in jobs.into_iter().zip(&results).enumerate() {
            if result.outcome == KeyedOutcome::QueueFull
                || target.has_newer(queue, &job, result).await?
            {
                absent.push((index, job));
            }
        }
        if absent.is_empty() {
            return Ok(StoredKeyed::Done {
                results,
                durability,
            });
        }
        let (places, jobs): (Vec<usize>, Vec<KeyedJob>) = absent.into_iter().unzip();
        let all_new = places.len() == results.len();
        let new = target
            .publish_keyed_here(queue, jobs, false, durability_target)
            .await
            // Nothing was stored there, but jobs may have been changed here.
            .map_err(|error| match all_new {
                true => error,
                false => EngineError::StorageFailed,
            })?;
        let StoredKeyed::Done {
            results: of_target,
            durability: of_new,
        } = new
        else {
            return Ok(new);
        };
        for (place, result) in places.into_iter().zip(of_target) {
            results[place] = result;
        }
        let durability = match (all_new, durability) {
            (true, _) | (false, Ok(_)) => of_new,
            (false, failed) => failed,
        };
        Ok(StoredKeyed::Done {
            results,
            durability,
        })
    }

    /// Whether this target of a move has a job with the key of `job`, for which the deployment before it has one that is
    /// done.
    async fn has_newer(
        &self,
        queue: &QueueKey,
        job: &KeyedJob,
        result: &KeyedResult,
    ) -> Result<bool, EngineError> {
        let is_done = result
            .job
            .is_some_and(|it| it.state == Some(JobState::Done));
        match job.key() {
            Some(key) if is_done && result.outcome == KeyedOutcome::Exists => {
                Ok(self.store.peek_job(queue, key).await?.is_some())
            }
            _ => Ok(false),
        }
    }

    /// While a pool moves, an atomic call uses its target alone.
    ///
    /// # Errors
    /// The own deployment has a job with one of these keys.
    async fn check_has_none(&self, queue: &QueueKey, jobs: &[KeyedJob]) -> Result<(), EngineError> {
        for key in jobs.iter().filter_map(KeyedJob::key) {
            if self.store.peek_job(queue, key).await?.is_some() {
                return Err(EngineError::PoolMoves);
            }
        }
        Ok(())
    }
}
