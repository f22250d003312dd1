//! Reads the sizes of queues and the figures of servers from Redis, on demand.

use std::sync::{Arc, LazyLock};
use std::time::Duration;

use prometheus::{IntCounter, IntCounterVec};
use tidegate_service::metrics::counters;
use tidegate_store::{AllQueues, ServerFigures, Store};
use tokio::sync::Mutex;
use tokio::time::Instant;

use crate::storage_failure::record_store_error;

static FAILURES: LazyLock<IntCounterVec> = LazyLock::new(|| {
    counters(
        "tidegate_collection_failures_total",
        "Number of times that the sizes of some queues could not be read from Redis.",
        &["pool"],
    )
});

/// The time limit for reading from Redis. It must be less than the scrape timeout of Prometheus, 10 s by default.
const COLLECT_LIMIT: Duration = Duration::from_secs(3);

/// The result of one read.
#[derive(Debug)]
pub struct Collected {
    /// The queues that could be read, in any order.
    pub listed: AllQueues,
    /// The figures of the servers that answered; `None` if no server did.
    pub(super) server: Option<ServerFigures>,
}

/// Reads the figures of one pool, one reader at a time, and caches them.
#[derive(Debug)]
pub struct Collector {
    store: Store,
    refresh: Duration,
    failures: IntCounter,
    last: Mutex<LastRead>,
}

#[derive(Debug, Default)]
struct LastRead {
    tried_at: Option<Instant>,
    collected: Option<Arc<Collected>>,
}

impl Collector {
    /// Creates the collector of a pool. Figures are cached for `refresh`.
    pub(crate) fn new(pool: &str, store: Store, refresh: Duration) -> Self {
        Self {
            store,
            refresh,
            failures: FAILURES.with_label_values(&[pool]),
            last: Mutex::default(),
        }
    }

    /// The figures of the servers that answered, at most `refresh` old; `None` if no server did. Takes a few seconds at
    /// most. A failure is cached as well, so that Redis is not asked more often while it is unavailable.
    pub async fn collect(&self) -> Option<Arc<Collected>> {
        let mut last = self.last.lock().await;
        if last.tried_at.is_none_or(|at| at.elapsed() >= self.refresh) {
            last.collected = self.read().await;
            last.tried_at = Some(Instant::now());
        }
        last.collected.clone()
    }

    async fn read(&self) -> Option<Arc<Collected>> {
        let (listed, server) = tokio::join!(
            self.store.all_queues(COLLECT_LIMIT),
            self.store.server_figures(COLLECT_LIMIT)
        );
        let missing_buckets = listed.missing_buckets;
        if missing_buckets > 0 {
            self.failures.inc();
            match &listed.error {
                Some(error) => record_store_error(error),
                None => {
                    tracing::warn!(
                        missing_buckets,
                        "timed out reading the sizes of all queues; metrics do not include the missing buckets"
                    );
                }
            }
        }
        let is_nothing = listed.queues.is_empty() && missing_buckets > 0 && server.is_none();
        (!is_nothing).then(|| Arc::new(Collected { listed, server }))
    }
}
