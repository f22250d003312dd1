//! Where requests meet: the batcher and the waiters, as `benches/meeting.rs` reaches them. A daemon has no
//! use for this.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use tidegate_core::{JobId, NewJob, QueueKey};
use tidegate_store::{Claim, Store, StoreError};

use crate::backlog::Backlog;
use crate::batcher::{Batcher, NewJobs, Publish, Verb};
use crate::lanes::LaneTable;
use crate::metrics::PoolFigures;
use crate::pool::Deployment;
use crate::size::Size;
use crate::waiters::{Source, Waiters};

const POOL: &str = "default";
const BACKLOG_MAX: Size = Size {
    jobs: usize::MAX,
    bytes: usize::MAX,
};
const POLL_INTERVAL: Duration = Duration::from_secs(60);
const CLAIM: Claim = Claim {
    count: 1,
    ttr_ms: 60_000,
};

/// A batcher in front of a store, and one whose calls end at once.
#[derive(Debug)]
pub struct Batching {
    backlog: Backlog,
    publishing: Batcher<Publish>,
    echoing: Batcher<Echo>,
    queue: QueueKey,
}

impl Batching {
    /// For one queue. To be called on a runtime.
    #[must_use]
    pub fn new(store: &Store, queue: QueueKey) -> Self {
        Self {
            backlog: Backlog::new(POOL, BACKLOG_MAX),
            publishing: Batcher::new(deployment(store)),
            echoing: Batcher::new(deployment(store)),
            queue,
        }
    }

    /// Publishes a job, together with others.
    ///
    /// # Errors
    /// Those of the store.
    pub async fn publish(&self, job: NewJob) -> Result<Vec<JobId>, StoreError> {
        let jobs = vec![job];
        // The bound is above what benchmarks send.
        let room = self.backlog.take(Size::of(&jobs)).expect("there is room");
        let new = NewJobs { jobs, room };
        Ok(self.publishing.submit(&self.queue, new).await?.ids)
    }

    /// Goes the same way without a call.
    ///
    /// # Errors
    /// None.
    pub async fn echo(&self, number: u64) -> Result<u64, StoreError> {
        self.echoing.submit(&self.queue, number).await
    }
}

/// The line of one queue.
#[derive(Debug)]
pub struct Waiting {
    waiters: Waiters,
    sources: [Source; 1],
}

impl Waiting {
    /// For one queue. To be called on a runtime.
    #[must_use]
    pub fn new(store: &Store, queue: QueueKey) -> Self {
        let pool: Arc<str> = POOL.into();
        let deployments = BTreeMap::from([(Arc::clone(&pool), deployment(store))]);
        Self {
            waiters: Waiters::new(&deployments, POLL_INTERVAL),
            sources: [Source { pool, queue }],
        }
    }

    /// Asks for a job and does not wait for one. Whether there was one; it is given back.
    pub async fn look(&self) -> bool {
        let delivery = self
            .waiters
            .wait(&self.sources, CLAIM, Duration::ZERO, &|| ());
        matches!(delivery.await, Ok(Some(_)))
    }
}

fn deployment(store: &Store) -> Deployment {
    Deployment {
        store: store.clone(),
        lanes: Arc::new(LaneTable::new(store.clone())),
        figures: Arc::new(PoolFigures::new(POOL, 1)),
    }
}

/// A verb that does nothing.
#[derive(Debug)]
struct Echo;

impl Verb for Echo {
    type Subject = QueueKey;
    type Wish = u64;
    type Outcome = u64;

    fn size(_wish: &u64) -> Size {
        Size { jobs: 1, bytes: 0 }
    }

    fn lanes(_to: &Deployment, _queue: &QueueKey) -> u16 {
        1
    }

    async fn call(
        _to: &Deployment,
        _queue: &QueueKey,
        _lane: u16,
        wishes: Vec<u64>,
    ) -> Result<Vec<u64>, StoreError> {
        Ok(wishes)
    }
}
