//! A pool as its clients see it: one Redis deployment, or two while its jobs move from one to the other.
//!
//! A pool that migrates stores new jobs in the pool it moves to, under the same namespace and queue. Jobs
//! that are there already stay where they are until they are consumed, so every other verb looks into
//! both: its own deployment first, which holds the older jobs. When its own is empty the pool can be
//! taken out of the settings.

mod every_lane;

use std::sync::Arc;
use std::time::Duration;

use tidegate_core::{JobId, NewJob, QueueKey};
use tidegate_store::{Acked, Peeked, Published, Store, StoreError};

use crate::backlog::{Backlog, BacklogFull};
use crate::batcher::{Ack, AlonePublish, Batcher, NewJobs, Publish, PublishAlone};
use crate::durable::{Aim, Stored};
use crate::lanes::LaneTable;
use crate::metrics::{Collector, PoolFigures};
use crate::size::Size;
use crate::waiters::Source;

/// A publish with more bytes of bodies and attributes goes alone: it would hold up the others.
const BATCHED_BYTES_MAX: usize = 16 * 1024;

/// A Redis deployment, and what is counted of its jobs. Cheap to clone.
#[derive(Debug, Clone)]
pub(crate) struct Deployment {
    /// The jobs.
    pub(crate) store: Store,
    /// How many lanes its queues have.
    pub(crate) lanes: Arc<LaneTable>,
    /// What is counted.
    pub(crate) figures: Arc<PoolFigures>,
}

/// One pool. Its verbs are those of the store; they fail as the store does.
#[derive(Debug)]
pub(crate) struct Pool {
    /// Its name in the configuration and in tokens.
    pub(crate) name: Arc<str>,
    /// What is counted of its deployment, and of the requests for it.
    pub(crate) figures: Arc<PoolFigures>,
    /// What Redis knows of all queues of its deployment.
    pub(crate) collector: Collector,
    /// How many lanes the queues of its deployment have.
    pub(crate) lanes: Arc<LaneTable>,
    store: Store,
    backlog: Backlog,
    publishing: Batcher<Publish>,
    publishing_alone: Batcher<PublishAlone>,
    acking: Batcher<Ack>,
    moves_to: Option<Arc<Self>>,
}

/// Why jobs were not published. After [`PublishError::Store`] they may have been stored.
#[derive(Debug, Clone, thiserror::Error)]
pub(crate) enum PublishError {
    #[error(transparent)]
    Backlog(#[from] BacklogFull),
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl Pool {
    /// At most `backlog_max` waits to be stored. `moves_to` itself moves nowhere.
    pub(crate) fn new(
        name: Arc<str>,
        deployment: Deployment,
        backlog_max: Size,
        refresh: Duration,
        moves_to: Option<Arc<Self>>,
    ) -> Self {
        let publishing = Batcher::new(deployment.clone());
        let publishing_alone = Batcher::new(deployment.clone());
        let acking = Batcher::new(deployment.clone());
        let Deployment {
            store,
            lanes,
            figures,
        } = deployment;
        Self {
            collector: Collector::new(&name, store.clone(), refresh),
            backlog: Backlog::new(&name, backlog_max),
            name,
            publishing,
            publishing_alone,
            acking,
            figures,
            lanes,
            store,
            moves_to,
        }
    }

    /// This pool and the one it moves to.
    pub(crate) fn both(&self) -> impl Iterator<Item = &Self> {
        [self].into_iter().chain(self.moves_to.as_deref())
    }

    /// Where the jobs of these queues come from. The order of the queues counts first.
    pub(crate) fn sources(&self, queues: &[QueueKey]) -> Vec<Source> {
        let of_queue = |queue: &QueueKey| {
            let queue = queue.clone();
            self.both().map(move |pool| Source {
                pool: Arc::clone(&pool.name),
                queue: queue.clone(),
            })
        };
        queues.iter().flat_map(of_queue).collect()
    }

    /// Stores jobs, all or none, in the place of the one that they replace, and waits until they are as safe as they
    /// should be. A replaced job in a lane that is closed, or in the other deployment of a pool that migrates, is
    /// deleted only then: a crash in between, or new jobs that are not as safe, leave both.
    ///
    /// Dropping the future takes the jobs back, unless they are in a call to Redis already.
    ///
    /// # Errors
    /// Too much waits to be stored: nothing was sent. Or the store failed.
    pub(crate) async fn publish(
        &self,
        queue: &QueueKey,
        jobs: Vec<NewJob>,
        replaces: Option<JobId>,
        aim: Aim,
    ) -> Result<Stored, PublishError> {
        let Some(target) = &self.moves_to else {
            return self.publish_here(queue, jobs, replaces, aim).await;
        };
        let stored = target.publish_here(queue, jobs, replaces, aim).await?;
        if let (Some(replaced), Ok(_)) = (replaces, &stored.durability) {
            // Gone, or it was in the other deployment.
            let _ = self.store.ack(queue, replaced, None).await?;
        }
        Ok(stored)
    }

    async fn publish_here(
        &self,
        queue: &QueueKey,
        jobs: Vec<NewJob>,
        replaces: Option<JobId>,
        aim: Aim,
    ) -> Result<Stored, PublishError> {
        let size = Size::of(&jobs);
        let room = self.backlog.take(size)?;
        aim.prepare(&self.store);
        let is_delayed = jobs.iter().any(|job| job.delay_ms > 0);
        let new = NewJobs { jobs, room };
        let published = if replaces.is_some() || size.bytes > BATCHED_BYTES_MAX {
            let lane = self.lanes.lane_for(queue, replaces);
            let subject = (queue.clone(), self.lanes.server_of(queue, lane));
            let wish = AlonePublish {
                new,
                replaces,
                lane,
            };
            self.publishing_alone.submit(&subject, wish).await?
        } else {
            self.publishing.submit(queue, new).await?
        };
        let Published { ids, receipt } = published;
        self.figures.published(queue, ids.len(), is_delayed);
        let durability = aim.reach(&self.store, receipt, &self.name).await;
        let is_elsewhere = |replaced: &JobId| ids.iter().all(|id| id.bucket() != replaced.bucket());
        if let (Some(replaced), Ok(_)) = (replaces.filter(is_elsewhere), &durability) {
            // Its lane is closed, so it could not go in the same step.
            let _ = self.store.ack(queue, replaced, None).await?;
        }
        Ok(Stored { ids, durability })
    }

    /// Deletes a job, wherever it is, if it is there.
    pub(crate) async fn ack(&self, queue: &QueueKey, id: JobId) -> Result<(), StoreError> {
        for pool in self.both() {
            let subject = (queue.clone(), id.bucket());
            if let Acked::Done { age_ms, .. } = pool.acking.submit(&subject, id).await? {
                let age = Duration::from_millis(age_ms);
                pool.figures.acked(queue, age);
                break;
            }
        }
        Ok(())
    }

    pub(crate) async fn peek_job(
        &self,
        queue: &QueueKey,
        id: JobId,
    ) -> Result<Option<Peeked>, StoreError> {
        for pool in self.both() {
            if let Some(peeked) = pool.store.peek_job(queue, id).await? {
                return Ok(pool.show(peeked));
            }
        }
        Ok(None)
    }

    fn show(&self, peeked: Peeked) -> Option<Peeked> {
        self.figures.peeked();
        Some(peeked)
    }
}
