//! Figures of a whole deployment, read from Redis on request: the sizes of all queues, and the figures of servers.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use tidegate_store::{BucketSizes, QueueSizes, ReadSizes, ServerFigures, Store, StoreError};

use super::kept_read::KeptRead;
use crate::metrics::storage_failure::record_store_error;

/// The time limit of a read. It must be less than the scrape timeout of Prometheus, 10 s by default.
const READ_MAX: Duration = Duration::from_secs(3);
/// The time limit of a read with few calls at a time.
const SLOW_READ_MAX: Duration = Duration::from_secs(60);
/// How long sizes of 1,000 queues are used at least. Reading them takes about 10 ms of Redis's CPU
/// (docs/benchmarks.md), so the reads of a process take at most a tenth of it.
const PAUSE_PER_1000_QUEUES: Duration = Duration::from_millis(100);

/// The figures of one deployment. Without a request nothing is read.
#[derive(Debug)]
pub(crate) struct PoolReads {
    store: Store,
    refresh: Duration,
    sizes: KeptRead<Arc<QueueSizes>>,
    servers: KeptRead<Option<ServerFigures>>,
}

impl PoolReads {
    /// Figures are used for `refresh`.
    pub(crate) fn new(store: Store, refresh: Duration) -> Self {
        Self {
            store,
            refresh,
            sizes: KeptRead::default(),
            servers: KeptRead::default(),
        }
    }

    /// The sizes of all queues; `None` if no bucket could be read. Takes a few seconds at most. A failure is kept as
    /// well, so that Redis is not asked more often while it is unavailable.
    pub(crate) async fn sizes(&self) -> Option<Arc<QueueSizes>> {
        let (store, refresh) = (self.store.clone(), self.refresh);
        let sizes = self.sizes.get(async move {
            let sizes = Arc::new(read_sizes(&store).await);
            let kept_for = kept_for(&sizes, refresh);
            (sizes, kept_for)
        });
        let buckets = self.store.buckets() as usize;
        sizes.await.filter(|sizes| sizes.missing_buckets < buckets)
    }

    /// The sizes of the queues of each bucket, read now, with few calls at a time; `None` for a bucket that cannot be read,
    /// which is logged.
    pub(crate) async fn buckets_now(&self) -> BTreeMap<u16, Option<BucketSizes>> {
        let ReadSizes { buckets, error } = self.store.read_sizes_slowly(SLOW_READ_MAX).await;
        if buckets.values().any(Option::is_none) {
            record_store_error(&error.unwrap_or_else(|| StoreError::timed_out(SLOW_READ_MAX)));
        }
        buckets
    }

    /// The figures of the servers that answer; `None` if no server does. Takes a few seconds at most.
    pub(crate) async fn servers(&self) -> Option<ServerFigures> {
        let (store, refresh) = (self.store.clone(), self.refresh);
        let servers = async move { (store.server_figures(READ_MAX).await, refresh) };
        self.servers.get(servers).await.flatten()
    }
}

async fn read_sizes(store: &Store) -> QueueSizes {
    let ReadSizes { buckets, error } = store.read_sizes(store.all_buckets(), READ_MAX).await;
    let sizes = QueueSizes::of(buckets.values().map(Option::as_ref));
    if sizes.missing_buckets > 0 {
        record_store_error(&error.unwrap_or_else(|| StoreError::timed_out(READ_MAX)));
    }
    sizes
}

fn kept_for(sizes: &QueueSizes, refresh: Duration) -> Duration {
    let thousands = u32::try_from(sizes.queues.len() / 1000).unwrap_or(u32::MAX);
    refresh.max(PAUSE_PER_1000_QUEUES.saturating_mul(thousands))
}
