//! Publishing jobs that have a key or an idempotency key.

use tidegate_core::{Durability, JobState, QueueKey};
use tidegate_store::{
    DurabilityError, KeyedJob, KeyedOutcome, KeyedPublish, KeyedResult, KeyedTerms,
    PUBLISH_JOBS_MAX, Receipt,
};

use super::{BATCHED_BYTES_MAX, Pool};
use crate::batcher::{PublishItem, keyed_terms};
use crate::durability::DurabilityTarget;
use crate::error::EngineError;
use crate::size::PublishSize;

/// Jobs that were published with keys.
#[derive(Debug)]
pub enum StoredKeyed {
    /// What became of each job, in order.
    Done {
        /// The results.
        results: Vec<KeyedResult>,
        /// The durability reached, or what is missing.
        durability: Result<Durability, DurabilityError>,
    },
    /// The jobs were to be stored as a whole, and this one prevents it. Nothing was stored.
    Refused {
        /// The index of the job.
        index: usize,
        /// Why it was refused.
        outcome: KeyedOutcome,
    },
}

impl Pool {
    /// Publishes up to [`PUBLISH_JOBS_MAX`] jobs in their order, and waits until they have the requested durability. In a
    /// pool that moves, a job whose key its own deployment has is published there, others in the target.
    ///
    /// Dropping the future cancels the publish, unless a call to Redis has begun.
    ///
    /// # Errors
    /// The queue is closed, or the backlog is full: nothing was sent. The pool moves, and an atomic call has a key of its
    /// own deployment: nothing was stored. Or the store failed: jobs may have been stored.
    pub async fn publish_keyed(
        &self,
        queue: &QueueKey,
        jobs: Vec<KeyedJob>,
        atomic: bool,
        durability_target: DurabilityTarget,
    ) -> Result<StoredKeyed, EngineError> {
        debug_assert!(jobs.len() <= PUBLISH_JOBS_MAX);
        if self
            .with_target()
            .any(|pool| pool.policies.is_closed(queue))
        {
            let may_be_repeated = jobs.iter().any(|job| job.idempotency.is_some());
            if self.target.is_some() || !may_be_repeated {
                return Err(EngineError::QueueClosed);
            }
            // The job of a request that is repeated may have been stored before the queue was closed.
            let mut terms = keyed_terms(None, atomic);
            terms.is_closed = true;
            let publishing = self.publish_keyed_alone(queue, jobs, terms, durability_target);
            return Box::pin(publishing).await;
        }
        match self.target.as_deref() {
            // Boxed, like the other cases that are rare: the future of each publish has room for the largest of them.
            Some(target) => {
                let publishing =
                    self.publish_keyed_moving(target, queue, jobs, atomic, durability_target);
                Box::pin(publishing).await
            }
            None => {
                self.publish_keyed_here(queue, jobs, atomic, durability_target)
                    .await
            }
        }
    }

    /// Publishes in this deployment.
    pub(super) async fn publish_keyed_here(
        &self,
        queue: &QueueKey,
        jobs: Vec<KeyedJob>,
        atomic: bool,
        durability_target: DurabilityTarget,
    ) -> Result<StoredKeyed, EngineError> {
        let size = PublishSize::of(jobs.iter().map(|job| &job.job));
        if atomic || size.bytes > BATCHED_BYTES_MAX {
            let max_jobs = self.policies.max_jobs(queue);
            let terms = keyed_terms(self.lanes.share_of(queue, 0, max_jobs), atomic);
            let publishing = self.publish_keyed_alone(queue, jobs, terms, durability_target);
            return Box::pin(publishing).await;
        }
        let room = self.backlog.take(size)?;
        self.prepare_durability(durability_target).await?;
        let item = PublishItem { jobs, room };
        let published = self.publishing_keyed.submit(queue, item).await;
        let (results, receipt) = published.map_err(EngineError::of_publish)?;
        Ok(self
            .stored_keyed(queue, results, receipt, durability_target)
            .await)
    }

    /// Publishes in this deployment with a call of its own.
    pub(super) async fn publish_keyed_alone(
        &self,
        queue: &QueueKey,
        jobs: Vec<KeyedJob>,
        terms: KeyedTerms,
        durability_target: DurabilityTarget,
    ) -> Result<StoredKeyed, EngineError> {
        let _room = self
            .backlog
            .take(PublishSize::of(jobs.iter().map(|job| &job.job)))?;
        self.prepare_durability(durability_target).await?;
        let published = self.store.publish_keyed(queue, jobs, terms).await;
        match published.map_err(EngineError::of_publish)? {
            KeyedPublish::Refused { index, outcome } => Ok(StoredKeyed::Refused { index, outcome }),
            KeyedPublish::Done { results, receipt } => Ok(self
                .stored_keyed(queue, results, receipt, durability_target)
                .await),
        }
    }

    async fn stored_keyed(
        &self,
        queue: &QueueKey,
        results: Vec<KeyedResult>,
        receipt: Receipt,
        durability_target: DurabilityTarget,
    ) -> StoredKeyed {
        self.count_published(queue, &results);
        let durability = durability_target
            .wait_until_durable(&self.store, receipt, &self.name)
            .await;
        StoredKeyed::Done {
            results,
            durability,
        }
    }

    fn count_published(&self, queue: &QueueKey, results: &[KeyedResult]) {
        let created = results
            .iter()
            .filter(|it| it.outcome == KeyedOutcome::Created);
        let states: Vec<_> = created.filter_map(|it| it.job?.state).collect();
        let delayed = states.iter().filter(|it| **it == JobState::Delayed).count();
        for (jobs, is_delayed) in [(delayed, true), (states.len() - delayed, false)] {
            if jobs > 0 {
                self.metrics.published(queue, jobs, is_delayed);
            }
        }
    }
}
