//! Access to the batcher and the waiters for `benches/batching.rs`. Daemons do not use this module.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use tidegate_core::{JobId, NewJob, QueueKey};
use tidegate_store::{Claim, Store, StoreError};

use crate::consume::waiters::{Source, Waiters};
use crate::pool::Pool;
use crate::publish::backlog::PublishBacklog;
use crate::publish::batch::items::{BatchedPublish, PublishItem};
use crate::publish::batch::{Batcher, Verb};
use crate::publish::size::PublishSize;

const POOL: &str = "default";
const BACKLOG_MAX: PublishSize = PublishSize {
    jobs: usize::MAX,
    bytes: usize::MAX,
};
const POLL_INTERVAL: Duration = Duration::from_secs(60);
const CLAIM: Claim = Claim::new(1, 60_000);

/// A batcher with a store, and a batcher whose calls return at once.
#[derive(Debug)]
pub struct BatcherBench {
    backlog: PublishBacklog,
    pool: Arc<Pool>,
    publishing: Batcher<BatchedPublish>,
    echoing: Batcher<Echo>,
    queue: QueueKey,
}

impl BatcherBench {
    /// Creates both for one queue. Must be called inside a runtime.
    pub fn new(store: &Store, queue: QueueKey) -> Self {
        Self {
            backlog: PublishBacklog::new(POOL, BACKLOG_MAX),
            pool: pool(store),
            publishing: Batcher::new(),
            echoing: Batcher::new(),
            queue,
        }
    }

    /// Publishes a job, in a batch with concurrent calls.
    ///
    /// # Errors
    /// The store failed.
    pub async fn publish(&self, job: NewJob) -> Result<Vec<JobId>, StoreError> {
        let jobs = vec![job];
        // The backlog is unbounded.
        let room = self
            .backlog
            .take(PublishSize::of(&jobs))
            .expect("there is room");
        let new = PublishItem { jobs, room };
        let published = self
            .publishing
            .submit(&self.pool, &self.queue, new)
            .await??;
        let stored = published.stored().unwrap_or_default();
        Ok(stored.iter().map(|job| job.id).collect())
    }

    /// Returns `number` through the batcher, without a call to the store.
    ///
    /// # Errors
    /// The batcher failed.
    pub async fn echo(&self, number: u64) -> Result<u64, StoreError> {
        self.echoing.submit(&self.pool, &self.queue, number).await
    }
}

/// The wait queue of one queue.
#[derive(Debug)]
pub struct WaitersBench {
    waiters: Waiters,
    sources: [Source; 1],
}

impl WaitersBench {
    /// Creates it for one queue. Must be called inside a runtime.
    pub fn new(store: &Store, queue: QueueKey) -> Self {
        let name: Arc<str> = POOL.into();
        let pools = BTreeMap::from([(Arc::clone(&name), pool(store))]);
        Self {
            waiters: Waiters::new(&pools, POLL_INTERVAL),
            sources: [Source { pool: name, queue }],
        }
    }

    /// Consumes one job without waiting. Returns whether there was one; the job is released.
    pub async fn consume_once(&self) -> bool {
        let delivery = self.waiters.wait(&self.sources, CLAIM, Duration::ZERO);
        matches!(delivery.await, Ok(Some(_)))
    }
}

fn pool(store: &Store) -> Arc<Pool> {
    let pool = Pool::new(
        POOL.into(),
        store.clone(),
        1,
        BACKLOG_MAX,
        POLL_INTERVAL,
        None,
    );
    Arc::new(pool)
}

/// A verb that returns its items without a call to the store.
#[derive(Debug)]
struct Echo;

impl Verb for Echo {
    type Context = Pool;
    type BatchKey = QueueKey;
    type BatchItem = u64;
    type ItemOutcome = u64;

    async fn call(
        _pool: &Pool,
        _queue: &QueueKey,
        _lane: u16,
        items: Vec<u64>,
    ) -> Result<Vec<u64>, StoreError> {
        Ok(items)
    }
}
