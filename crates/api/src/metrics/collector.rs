//! Figures that only Redis knows, read when somebody asks for them.

use std::sync::Arc;
use std::time::Duration;

use metrics::{Counter, counter, describe_counter};
use tidegate_store::{ListedQueue, ServerFigures, Store, StoreError};
use tokio::sync::Mutex;
use tokio::time::{Instant, timeout};

use super::storage_failed;

const FAILURES: &str = "tidegate_collection_failures_total";

/// Whoever asks for metrics does not wait longer for Redis: scrapes are given up after 10 s by default.
const COLLECT_LIMIT: Duration = Duration::from_secs(3);

/// Says once per process what the counters mean.
pub(super) fn describe() {
    describe_counter!(
        FAILURES,
        "Times that the figures of queues and server could not be read from Redis"
    );
}

/// What Redis knew at one moment.
#[derive(Debug)]
pub(crate) struct Collected {
    /// All queues, in no order.
    pub(crate) queues: Vec<ListedQueue>,
    /// The server.
    pub(super) server: ServerFigures,
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

    /// The figures, not older than the time to remember them; none if the last try to read them failed,
    /// after some seconds at most. A failure is remembered as well: Redis is not asked more often while
    /// it is away.
    pub(crate) async fn collect(&self) -> Option<Arc<Collected>> {
        let mut last = self.last.lock().await;
        if last.tried_at.is_none_or(|at| at.elapsed() >= self.refresh) {
            last.collected = self.read().await;
            last.tried_at = Some(Instant::now());
        }
        last.collected.clone()
    }

    async fn read(&self) -> Option<Arc<Collected>> {
        let reading = async {
            let (queues, server) =
                tokio::try_join!(self.store.all_queues(), self.store.server_figures())?;
            Ok::<_, StoreError>(Arc::new(Collected { queues, server }))
        };
        match timeout(COLLECT_LIMIT, reading).await {
            Ok(Ok(collected)) => return Some(collected),
            Ok(Err(error)) => storage_failed(&error),
            Err(_) => tracing::warn!("reading the figures of all queues takes too long"),
        }
        self.failures.increment(1);
        None
    }
}
