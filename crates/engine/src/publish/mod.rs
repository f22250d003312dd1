//! Publishing: the one path of jobs from a front door to Redis.
//!
//! ```text
//!  front door ──► Pool::publish ──► publish_here (call.rs) ──► batch, or a call of its own ──► lane ──► store
//!                      │                 └──► publish_keyed (keyed.rs): the lane that has the key, else its lane
//!                      └──► publish_moving (moving.rs): the deployment that has the key, else the target
//! ```

pub(crate) mod backlog;
pub(crate) mod batch;
mod call;
pub(crate) mod durability;
pub(crate) mod keyed;
pub(crate) mod lane;
mod lane_answer;
mod limited;
mod moving;
pub(crate) mod size;

use std::sync::Arc;

use tidegate_core::{Durability, JobId, NewJob, QueueKey};
use tidegate_store::{DurabilityError, PUBLISH_JOBS_MAX, PublishJob, StoredJob};

use crate::error::EngineError;
use crate::pool::Pool;
use crate::publish::batch::items::Intake;
use crate::publish::durability::DurabilityTarget;

/// Jobs to be published to a queue.
#[derive(Debug, Clone)]
pub struct JobsToPublish {
    /// 1 to [`PUBLISH_JOBS_MAX`] jobs, which are stored in their order.
    pub jobs: Vec<PublishJob>,
    /// A job to delete in the same step, if these jobs have no keys.
    pub replaces: Option<JobId>,
    /// Whether all jobs are stored or none.
    pub atomic: bool,
    /// The durability that the jobs must have before the publish is answered.
    pub durability: DurabilityTarget,
}

/// Jobs that were published.
#[derive(Debug)]
pub struct Published {
    /// The outcome of each job, in their order.
    pub jobs: Vec<Result<StoredJob, EngineError>>,
    /// The reached durability, or the missing one.
    pub durability: Result<Durability, DurabilityError>,
}

impl JobsToPublish {
    /// One job with a key or without.
    pub fn one(job: PublishJob, durability: DurabilityTarget) -> Self {
        Self {
            jobs: vec![job],
            replaces: None,
            atomic: false,
            durability,
        }
    }

    /// Jobs without keys, all of which are stored or none.
    pub fn all(jobs: Vec<NewJob>, durability: DurabilityTarget) -> Self {
        Self {
            jobs: jobs.into_iter().map(PublishJob::from).collect(),
            replaces: None,
            atomic: true,
            durability,
        }
    }
}

impl Published {
    /// The job of a publish of one.
    ///
    /// # Errors
    /// It was refused.
    pub fn first(&self) -> Result<StoredJob, EngineError> {
        let first = self.jobs.first().copied();
        first.unwrap_or(Err(EngineError::StorageFailed))
    }

    /// The ids of the jobs.
    ///
    /// # Errors
    /// A job was refused.
    pub fn ids(&self) -> Result<Vec<JobId>, EngineError> {
        let ids = self.jobs.iter().map(|job| job.map(|job| job.id));
        ids.collect()
    }
}

impl Pool {
    /// Stores jobs and waits until they have the requested durability. In a pool that moves, a job whose key its own
    /// deployment has is stored there, others in the target.
    ///
    /// A job that these replace is deleted in the same step. One in a closed lane, or in the own deployment of a pool
    /// that moves, is deleted after the wait for durability: after a crash in between, or if the durability is not
    /// confirmed, both jobs are there.
    ///
    /// Dropping the future cancels the publish, unless a call to Redis has begun.
    ///
    /// # Errors
    /// The queue is closed, the namespace has as many jobs or publishes as it may, or the backlog is full: nothing was
    /// sent. The queue is full, a job of an atomic publish was refused, or has a key of the own deployment of a pool that
    /// moves: nothing was stored. Or the store failed: jobs may have been stored.
    pub async fn publish(
        self: &Arc<Self>,
        queue: &QueueKey,
        publish: JobsToPublish,
    ) -> Result<Published, EngineError> {
        debug_assert!(publish.jobs.len() <= PUBLISH_JOBS_MAX);
        let is_closed = self
            .with_target()
            .any(|pool| pool.policies.is_closed(queue));
        // The rare cases are boxed: the future of each publish has room for the largest of them.
        if is_closed {
            return Box::pin(self.publish_to_closed(queue, publish)).await;
        }
        let limits = self.store.namespace_limits(&queue.namespace);
        if limits.jobs.is_some() || limits.publishes_per_second.is_some() {
            return Box::pin(self.publish_limited(queue, publish, limits)).await;
        }
        self.publish_anywhere(queue, publish).await
    }

    /// Publishes in this deployment, or where the pool moves to.
    async fn publish_anywhere(
        self: &Arc<Self>,
        queue: &QueueKey,
        publish: JobsToPublish,
    ) -> Result<Published, EngineError> {
        match self.target() {
            Some(target) => Box::pin(self.publish_moving(target, queue, publish)).await,
            None => self.publish_here(queue, publish).await,
        }
    }

    /// The job of a request that is repeated may have been stored before the queue was closed.
    async fn publish_to_closed(
        self: &Arc<Self>,
        queue: &QueueKey,
        publish: JobsToPublish,
    ) -> Result<Published, EngineError> {
        let may_be_repeated = publish.jobs.iter().any(|job| job.idempotency.is_some());
        if self.target().is_some() || !may_be_repeated {
            return Err(EngineError::QueueClosed);
        }
        self.publish_keyed(queue, publish, Intake::Closed).await
    }
}
