//! A pool as its clients see it: one Redis deployment, or two while the pool moves (`migrate_to`).
//!
//! A pool that moves stores new jobs in its target pool, under the same namespace and queue. Existing jobs stay in its
//! own deployment until they are consumed, so every other verb uses both deployments, its own first, which has the
//! older jobs. When its own deployment is empty, the pool can be removed from the settings.

pub(crate) mod act;
mod directory;
pub(crate) mod job_act;
pub(crate) mod job_criteria;
pub(crate) mod job_list;
mod jobs;
pub(crate) mod keyed;
mod keyed_move;
mod leases;
mod moves;
pub(crate) mod overview;
pub(crate) mod queue_list;
mod result;
mod whole_queue;

use std::sync::Arc;
use std::time::Duration;

use tidegate_core::{Durability, JobId, NewJob, QueueKey};
use tidegate_store::{
    AckOutcome, ConnectError, PeekedJob, PublishOutcome, PublishedJobs, Schedules, Store,
};
use tokio::sync::OnceCell;

use crate::backlog::PublishBacklog;
use crate::batcher::{
    BatchedAck, BatchedKeyedPublish, BatchedLeaseAck, BatchedPublish, Batcher, PublishItem,
    SinglePublish, SinglePublishItem,
};
use crate::deployment::RedisDeployment;
use crate::durability::{DurabilityTarget, StoredJobs};
use crate::error::EngineError;
use crate::job_ends::JobEnds;
use crate::lanes::LaneTable;
use crate::metrics::{Collector, PoolMetrics};
use crate::policies::PolicyTable;
use crate::publisher::LanePublisher;
use crate::size::PublishSize;
use crate::waiters::Source;

/// A publish with more bytes of bodies and attributes has its own call, as it would delay the others in a batch.
const BATCHED_BYTES_MAX: usize = 16 * 1024;

/// One pool. Its verbs are those of the store, and return the errors of the store.
#[derive(Debug)]
pub struct Pool {
    /// Its name in the configuration and in tokens.
    pub name: Arc<str>,
    /// The metrics of its deployment.
    pub(crate) metrics: Arc<PoolMetrics>,
    /// Reads the sizes of all queues of its deployment.
    pub collector: Arc<Collector>,
    /// The numbers of lanes of the queues of its deployment.
    pub lanes: Arc<LaneTable>,
    /// The policies of the queues of its deployment.
    pub policies: Arc<PolicyTable>,
    /// The schedules of its deployment. A pool that moves has those of its own deployment.
    pub schedules: Schedules,
    store: Store,
    ends: Arc<JobEnds>,
    publisher: Arc<LanePublisher>,
    backlog: PublishBacklog,
    publishing: Batcher<BatchedPublish>,
    publishing_alone: Batcher<SinglePublish>,
    publishing_keyed: Batcher<BatchedKeyedPublish>,
    acking: Batcher<BatchedAck>,
    acking_leases: Batcher<BatchedLeaseAck>,
    /// Set when the deployment has shown that it can confirm writes to disk.
    confirms_disk: OnceCell<()>,
    target: Option<Arc<Self>>,
    /// Set when this process has tried to record in the deployment that the pool moves.
    move_recorded: OnceCell<()>,
}

impl Pool {
    /// Creates a pool in which at most `backlog_max` waits to be stored. `refresh` is how long the sizes of its queues
    /// are cached. `moves_to` must not move itself.
    pub(crate) fn new(
        name: Arc<str>,
        deployment: RedisDeployment,
        backlog_max: PublishSize,
        refresh: Duration,
        moves_to: Option<Arc<Self>>,
    ) -> Self {
        Self {
            collector: Arc::new(Collector::new(&name, deployment.store.clone(), refresh)),
            backlog: PublishBacklog::new(&name, backlog_max),
            name,
            publishing: Batcher::new(deployment.clone()),
            publishing_alone: Batcher::new(deployment.clone()),
            publishing_keyed: Batcher::new(deployment.clone()),
            acking: Batcher::new(deployment.clone()),
            acking_leases: Batcher::new(deployment.clone()),
            metrics: deployment.figures,
            lanes: deployment.lanes,
            policies: deployment.policies,
            schedules: deployment.store.schedules(),
            store: deployment.store,
            ends: deployment.ends,
            publisher: deployment.publisher,
            confirms_disk: OnceCell::new(),
            target: moves_to,
            move_recorded: OnceCell::new(),
        }
    }

    /// The store of its deployment.
    pub(crate) const fn store(&self) -> &Store {
        &self.store
    }

    /// This pool, then the one that it moves to, if any.
    pub fn with_target(&self) -> impl Iterator<Item = &Self> {
        [self].into_iter().chain(self.target.as_deref())
    }

    /// The sources of these queues, by queue first, then by deployment.
    pub fn sources(&self, queues: &[QueueKey]) -> Vec<Source> {
        let of_queue = |queue: &QueueKey| {
            let queue = queue.clone();
            self.with_target().map(move |pool| Source {
                pool: Arc::clone(&pool.name),
                queue: queue.clone(),
            })
        };
        queues.iter().flat_map(of_queue).collect()
    }

    /// Stores jobs, all or none, deletes the job that they replace, and waits until they have the requested durability.
    /// A replaced job in a closed lane, or in the own deployment of a pool that moves, is deleted after that wait, in a
    /// separate step: after a crash in between, or if the durability is not confirmed, both jobs are there.
    ///
    /// Dropping the future cancels the publish, unless a call to Redis has begun.
    ///
    /// # Errors
    /// The queue is closed, or the backlog is full: nothing was sent. The queue is full: nothing was stored. Or the store
    /// failed: the jobs may have been stored.
    pub async fn publish(
        &self,
        queue: &QueueKey,
        jobs: Vec<NewJob>,
        replaces: Option<JobId>,
        durability_target: DurabilityTarget,
    ) -> Result<StoredJobs, EngineError> {
        if self
            .with_target()
            .any(|pool| pool.policies.is_closed(queue))
        {
            return Err(EngineError::QueueClosed);
        }
        let Some(target) = &self.target else {
            return self
                .publish_here(queue, jobs, replaces, durability_target)
                .await;
        };
        self.record_move(target).await;
        let stored = target
            .publish_here(queue, jobs, replaces, durability_target)
            .await?;
        if let (Some(replaced), Ok(_)) = (replaces, &stored.durability) {
            // It may be gone, or the target had it: the answer does not matter.
            let _ = Box::pin(self.store.ack(queue, replaced, None)).await?;
        }
        Ok(stored)
    }

    async fn publish_here(
        &self,
        queue: &QueueKey,
        jobs: Vec<NewJob>,
        replaces: Option<JobId>,
        durability_target: DurabilityTarget,
    ) -> Result<StoredJobs, EngineError> {
        let size = PublishSize::of(&jobs);
        let room = self.backlog.take(size)?;
        self.prepare_durability(durability_target).await?;
        let has_delay = jobs.iter().any(|job| job.delay_ms > 0);
        let run_at_ms = jobs.iter().filter_map(NewJob::run_at_ms).max();
        let new = PublishItem { jobs, room };
        let published = if replaces.is_some() || size.bytes > BATCHED_BYTES_MAX {
            let lane = self.publisher.lane_for(queue, replaces);
            let key = (queue.clone(), self.lanes.server_of(queue, lane));
            let item = SinglePublishItem {
                new,
                replaces,
                lane,
            };
            self.publishing_alone.submit(&key, item).await
        } else {
            let published = self.publishing.submit(queue, new).await;
            published.and_then(|outcome| outcome)
        };
        let published = published.map_err(EngineError::of_publish)?;
        let PublishOutcome::Stored(PublishedJobs { ids, receipt }) = published else {
            return Err(EngineError::QueueFull);
        };
        let stored_at_ms = ids.first().map_or(0, |id| id.created_at_ms());
        let is_delayed = has_delay || run_at_ms.is_some_and(|at_ms| at_ms > stored_at_ms);
        self.metrics.published(queue, ids.len(), is_delayed);
        let durability = durability_target
            .wait_until_durable(&self.store, receipt, &self.name)
            .await;
        let is_elsewhere = |replaced: &JobId| ids.iter().all(|id| id.bucket() != replaced.bucket());
        if let (Some(replaced), Ok(_)) = (replaces.filter(is_elsewhere), &durability) {
            // The jobs are in another lane, as its lane is closed: it could not be deleted in the same step.
            let _ = Box::pin(self.store.ack(queue, replaced, None)).await?;
        }
        Ok(StoredJobs { ids, durability })
    }

    /// Prepares for a publish that waits for this durability.
    ///
    /// # Errors
    /// Redis cannot confirm writes to disk, as it is too old or has no append-only file; or it does not reply.
    async fn prepare_durability(&self, target: DurabilityTarget) -> Result<(), EngineError> {
        if target.durability.fsync {
            let check = || self.store.check_durability(Durability::FSYNC);
            let checked = self.confirms_disk.get_or_try_init(|| async {
                check().await.map_err(|error| match error {
                    ConnectError::Refused(_) => EngineError::DiskUnconfirmed,
                    _ => EngineError::StorageFailed,
                })
            });
            Box::pin(checked).await?;
        }
        target.prepare(&self.store);
        Ok(())
    }

    /// Deletes a job, in whichever deployment and state it is; if a newer version waits for the end of its lease, that
    /// runs. Returns whether there was such a job.
    ///
    /// # Errors
    /// Redis gave no answer; the job may have been deleted. Or the pool moves to a deployment that this process does not
    /// know, and may have the job there.
    pub async fn ack(&self, queue: &QueueKey, id: JobId) -> Result<bool, EngineError> {
        let key = (queue.clone(), id.bucket());
        let mut next = Some(self);
        while let Some(pool) = next {
            let acked = pool.acking.submit(&key, id).await?;
            pool.count_acked(queue, [acked]);
            if acked != AckOutcome::AlreadyGone {
                return Ok(true);
            }
            next = pool.next_deployment(queue, id).await?;
        }
        Ok(false)
    }

    fn count_peeked(&self, peeked: PeekedJob) -> Option<PeekedJob> {
        self.metrics.peeked();
        Some(peeked)
    }
}
