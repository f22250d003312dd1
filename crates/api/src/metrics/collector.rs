//! Figures that only Redis knows, read when somebody asks for them.

use std::sync::Arc;
use std::time::Duration;

use metrics::{Counter, counter, describe_counter};
use tidegate_store::{AllQueues, ListedQueue, ServerFigures, Store};
use tokio::sync::Mutex;
use tokio::time::Instant;

use super::storage_failed;

const FAILURES: &str = "tidegate_collection_failures_total";

/// Whoever asks for metrics does not wait longer for Redis: scrapes are given up after 10 s by default.
const COLLECT_LIMIT: Duration = Duration::from_secs(3);

/// Says once per process what the counters mean.
pub(super) fn describe() {
    describe_counter!(
        FAILURES,
        "Number of times that the figures of some queues or servers could not be read from Redis"
    );
}

/// What Redis knew at one moment.
#[derive(Debug)]
pub(crate) struct Collected {
    /// The queues that could be read, in no order.
    pub(crate) queues: Vec<ListedQueue>,
    /// Buckets whose queues could not be read.
    pub(crate) missing_buckets: usize,
    /// The servers that answered; none if no server did.
    pub(super) server: Option<ServerFigures>,
}

/// Reads the figures of one pool, one reader at a time, and remembers them for a while.
#[derive(Debug)]
pub(crate) struct Collector {
    store: Store,
    refresh: Duration,
    failures: Counter,
    last: Mutex<Last>,
}

#[derive(Debug, Default)]
struct Last {
    tried_at: Option<Instant>,
    collected: Option<Arc<Collected>>,
}

impl Collector {
    /// For the pool of this name; figures are read anew after `refresh`.
    pub(crate) fn new(pool: &str, store: Store, refresh: Duration) -> Self {
        Self {
            store,
            refresh,
            failures: counter!(FAILURES, "pool" => pool.to_owned()),
            last: Mutex::default(),
        }
    }

    /// The figures, not older than the time to remember them, after some seconds at most: those of the servers that answered;
    /// none if no server did. A failure is remembered as well: Redis is not asked more often while it is unavailable.
    pub(crate) async fn collect(&self) -> Option<Arc<Collected>> {
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
        let AllQueues {
            queues,
            missing_buckets,
            error,
        } = listed;
        if missing_buckets > 0 {
            self.failures.increment(1);
            match error {
                Some(error) => storage_failed(&error),
                None => {
                    tracing::warn!(
                        missing_buckets,
                        "failed to read the figures of all queues in time"
                    );
                }
            }
        }
        let is_nothing = queues.is_empty() && missing_buckets > 0 && server.is_none();
        (!is_nothing).then(|| {
            Arc::new(Collected {
                queues,
                missing_buckets,
                server,
            })
        })
    }
}
