//! A pool as its clients see it: one Redis deployment, or two while its jobs move from one to the other.
//!
//! A pool that migrates stores new jobs in the pool it moves to, under the same namespace and queue. Jobs
//! that are there already stay where they are until they are consumed, so every other verb looks into
//! both: its own deployment first, which holds the older jobs. When its own is empty the pool can be
//! taken out of the settings.

use std::sync::Arc;

use tidegate_core::{JobId, NewJob, QueueKey};
use tidegate_store::{Acked, Peeked, Stats, Store, StoreError};

use crate::batcher::{Ack, Batcher, Publish};
use crate::waiters::Source;

/// Jobs with longer bodies than this, together, go by themselves: they would hold up the others.
const BATCHED_BYTES_MAX: usize = 16 * 1024;

/// One pool. Its verbs are those of the store; they fail as the store does.
#[derive(Debug)]
pub(crate) struct Pool {
    /// Its name in the configuration and in tokens.
    pub(crate) name: Arc<str>,
    store: Store,
    publishing: Batcher<Publish>,
    acking: Batcher<Ack>,
    moves_to: Option<Arc<Self>>,
}

impl Pool {
    /// `moves_to` itself moves nowhere.
    pub(crate) fn new(name: Arc<str>, store: Store, moves_to: Option<Arc<Self>>) -> Self {
        Self {
            name,
            publishing: Batcher::new(store.clone()),
            acking: Batcher::new(store.clone()),
            store,
            moves_to,
        }
    }

    /// This pool and the one it moves to.
    fn both(&self) -> impl Iterator<Item = &Self> {
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

    /// Stores jobs, all or none, and then takes the job away that they replace. In a pool that migrates
    /// the replaced job may be in the other deployment: a crash in between leaves both.
    pub(crate) async fn publish(
        &self,
        queue: &QueueKey,
        jobs: Vec<NewJob>,
        replaces: Option<JobId>,
    ) -> Result<Vec<JobId>, StoreError> {
        let Some(target) = &self.moves_to else {
            return self.publish_here(queue, jobs, replaces).await;
        };
        let ids = target.publish_here(queue, jobs, replaces).await?;
        if let Some(replaced) = replaces {
            // Gone, or it was in the other deployment.
            let _ = self.store.ack(queue, replaced, None).await?;
        }
        Ok(ids)
    }

    async fn publish_here(
        &self,
        queue: &QueueKey,
        jobs: Vec<NewJob>,
        replaces: Option<JobId>,
    ) -> Result<Vec<JobId>, StoreError> {
        let bytes: usize = jobs.iter().map(|job| job.body.len()).sum();
        if replaces.is_some() || bytes > BATCHED_BYTES_MAX {
            return self.store.publish(queue, &jobs, replaces).await;
        }
        self.publishing.submit(queue, jobs).await
    }

    pub(crate) async fn ack(&self, queue: &QueueKey, id: JobId) -> Result<Acked, StoreError> {
        let mut acked = Acked::AlreadyGone;
        for pool in self.both() {
            acked = pool.acking.submit(queue, id).await?;
            if let Acked::Done { .. } = acked {
                break;
            }
        }
        Ok(acked)
    }

    pub(crate) async fn peek_ready(&self, queue: &QueueKey) -> Result<Option<Peeked>, StoreError> {
        first_found(self.both(), |store| store.peek_ready(queue)).await
    }

    pub(crate) async fn peek_job(
        &self,
        queue: &QueueKey,
        id: JobId,
    ) -> Result<Option<Peeked>, StoreError> {
        first_found(self.both(), |store| store.peek_job(queue, id)).await
    }

    pub(crate) async fn peek_dead(&self, queue: &QueueKey) -> Result<Option<Peeked>, StoreError> {
        first_found(self.both(), |store| store.peek_dead(queue)).await
    }

    pub(crate) async fn stats(&self, queue: &QueueKey) -> Result<Stats, StoreError> {
        let mut stats = Stats::default();
        for pool in self.both() {
            stats += pool.store.stats(queue).await?;
        }
        Ok(stats)
    }

    pub(crate) async fn purge_ready(&self, queue: &QueueKey) -> Result<(), StoreError> {
        for pool in self.both() {
            pool.store.purge_ready(queue).await?;
        }
        Ok(())
    }

    pub(crate) async fn purge_dead(&self, queue: &QueueKey, limit: u64) -> Result<(), StoreError> {
        let mut left = limit;
        for pool in self.both() {
            left -= pool.store.purge_dead(queue, left).await?;
        }
        Ok(())
    }

    pub(crate) async fn respawn(
        &self,
        queue: &QueueKey,
        limit: u64,
        ttl_ms: u64,
    ) -> Result<u64, StoreError> {
        let mut left = limit;
        for pool in self.both() {
            left -= pool.store.respawn(queue, left, ttl_ms).await?;
        }
        Ok(limit - left)
    }
}

/// What the first of the pools that has something answers.
async fn first_found<'a, T, F>(
    pools: impl Iterator<Item = &'a Pool>,
    look: impl Fn(&'a Store) -> F,
) -> Result<Option<T>, StoreError>
where
    F: Future<Output = Result<Option<T>, StoreError>>,
{
    for pool in pools {
        let found = look(&pool.store).await?;
        if found.is_some() {
            return Ok(found);
        }
    }
    Ok(None)
}
