//! A pool as its clients see it: one Redis deployment, or two while the pool moves (`migrate_to`).
//!
//! A pool that moves stores new jobs in its target pool, under the same namespace and queue. Existing jobs stay in its
//! own deployment until they are consumed, so every other verb uses both deployments, its own first, which has the
//! older jobs. When its own deployment is empty, the pool can be removed from the settings.

mod kept_read;
mod moves;
mod reads;

use std::sync::Arc;
use std::time::Duration;

use tidegate_core::QueueKey;
use tidegate_store::{Schedules, Store};
use tokio::sync::OnceCell;

use crate::consume::job_ends::JobEnds;
use crate::consume::waiters::source::Source;
use crate::metrics::PoolMetrics;
use crate::namespaces::job_room::JobRooms;
use crate::namespaces::publish_holds::PublishHolds;
use crate::publish::backlog::PublishBacklog;
use crate::publish::batch::Batcher;
use crate::publish::batch::items::{
    BatchedAck, BatchedKeyedPublish, BatchedPublish, SinglePublish,
};
use crate::publish::lane::LanePublisher;
use crate::publish::size::PublishSize;
use crate::queue::lanes::LaneTable;
use crate::queue::policies::PolicyTable;
use reads::PoolReads;

/// One pool, with the verbs of the store. Each verb returns the error of the store if Redis fails.
#[derive(Debug)]
pub struct Pool {
    /// Its name in the configuration and in tokens.
    pub name: Arc<str>,
    /// The metrics of its deployment.
    pub(crate) metrics: PoolMetrics,
    /// Figures of its whole deployment.
    pub(crate) reads: PoolReads,
    /// The numbers of lanes of the queues of its deployment.
    pub lanes: Arc<LaneTable>,
    /// The policies of the queues of its deployment.
    pub policies: PolicyTable,
    /// The schedules of its deployment. They stay there while the pool moves.
    pub schedules: Schedules,
    pub(crate) store: Store,
    pub(crate) ends: JobEnds,
    pub(crate) job_rooms: Arc<JobRooms>,
    pub(crate) publish_holds: PublishHolds,
    pub(crate) publisher: LanePublisher,
    pub(crate) backlog: PublishBacklog,
    pub(crate) publishing: Batcher<BatchedPublish>,
    pub(crate) publishing_alone: Batcher<SinglePublish>,
    pub(crate) publishing_keyed: Batcher<BatchedKeyedPublish>,
    pub(crate) acking: Batcher<BatchedAck>,
    /// Set when the deployment has shown that it can confirm writes to disk.
    pub(crate) confirms_disk: OnceCell<()>,
    pub(crate) target: Option<Arc<Self>>,
    /// Set when this process has tried to record in the deployment that the pool moves.
    pub(crate) move_recorded: OnceCell<()>,
}

impl Pool {
    /// Creates a pool of at most `queues_max` queues with metrics of their own, in which at most `backlog_max` waits to
    /// be stored. `refresh` is how long figures of its deployment are cached. `moves_to` must not move itself.
    pub(crate) fn new(
        name: Arc<str>,
        store: Store,
        queues_max: usize,
        backlog_max: PublishSize,
        refresh: Duration,
        moves_to: Option<Arc<Self>>,
    ) -> Self {
        let lanes = Arc::new(LaneTable::new(store.clone()));
        Self {
            metrics: PoolMetrics::new(&name, queues_max),
            reads: PoolReads::new(store.clone(), refresh),
            backlog: PublishBacklog::new(&name, backlog_max),
            name,
            publishing: Batcher::new(),
            publishing_alone: Batcher::new(),
            publishing_keyed: Batcher::new(),
            acking: Batcher::new(),
            publisher: LanePublisher::new(store.clone(), Arc::clone(&lanes)),
            lanes,
            policies: PolicyTable::new(&store),
            schedules: store.schedules(),
            ends: JobEnds::default(),
            job_rooms: Arc::default(),
            publish_holds: PublishHolds::default(),
            store,
            confirms_disk: OnceCell::new(),
            target: moves_to,
            move_recorded: OnceCell::new(),
        }
    }

    /// The store of its deployment.
    pub(crate) const fn store(&self) -> &Store {
        &self.store
    }

    /// The store of the deployment that gets new jobs.
    pub(crate) fn store_of_new_jobs(&self) -> &Store {
        &self.target.as_deref().unwrap_or(self).store
    }

    /// The pool that it moves to, if it moves.
    pub(crate) const fn target(&self) -> Option<&Arc<Self>> {
        self.target.as_ref()
    }

    /// This pool, then its target if it moves.
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
}
