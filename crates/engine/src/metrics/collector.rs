//! Reads the sizes of queues and the figures of servers from Redis, on demand. One process of a deployment collects the sizes
//! of queues, the others read what it has stored.

use std::sync::{Arc, LazyLock};
use std::time::Duration;

use prometheus::{IntCounter, IntCounterVec};
use tidegate_daemon::metrics::counters;
use tidegate_daemon::run_to_end;
use tidegate_store::{
    AllQueues, ServerFigures, SharedSizes, SizesAnswer, SizesClaim, SizesVersion, Store, StoreError,
};
use tokio::sync::Mutex;
use tokio::time::{Instant, sleep, timeout};

use crate::metrics::storage_failure::record_store_error;

static FAILURES: LazyLock<IntCounterVec> = LazyLock::new(|| {
    counters(
        "tidegate_collection_failures_total",
        "Number of times that the sizes of some queues could not be read from Redis.",
        &["pool"],
    )
});

/// The time limit for reading from Redis. It must be less than the scrape timeout of Prometheus, 10 s by default.
const COLLECT_LIMIT: Duration = Duration::from_secs(3);

/// How long one process may take to collect for all: [`COLLECT_LIMIT`], and the time to store what it has read.
const CLAIM_LEASE: Duration = Duration::from_secs(4);
/// How soon a process that waits for another one's collection looks again, at first and at most.
const LOOK_AGAIN: (Duration, Duration) = (Duration::from_millis(10), Duration::from_millis(160));

/// The result of one read.
#[derive(Debug, Clone)]
pub struct Collected {
    /// The queues that could be read, in any order.
    pub listed: Arc<AllQueues>,
    /// When the collection of these queues began.
    pub(super) began_at: Instant,
    /// The figures of the servers that answered; `None` if no server did.
    pub(super) server: Option<ServerFigures>,
}

impl Collected {
    /// The figures of the servers that answered; `None` if no server did.
    #[must_use]
    pub const fn server(&self) -> Option<&ServerFigures> {
        self.server.as_ref()
    }
}

/// Reads the figures of one pool, one reader at a time, and caches them. The sizes of queues are collected by one process
/// of the deployment, and stored for the others.
#[derive(Debug)]
pub struct Collector {
    store: Store,
    sizes: SharedSizes,
    refresh: Duration,
    failures: IntCounter,
    last: Mutex<LastRead>,
}

#[derive(Debug, Default)]
struct LastRead {
    /// When Redis is asked again; `None` = at once.
    valid_until: Option<Instant>,
    sizes: Option<KnownSizes>,
    /// The last list without missing queues, and when it was collected.
    complete: Option<(Arc<AllQueues>, Instant)>,
    collected: Option<Arc<Collected>>,
}

/// Sizes of all queues.
#[derive(Debug, Clone)]
struct KnownSizes {
    /// Their id if they are stored.
    id: Option<String>,
    listed: Arc<AllQueues>,
    began_at: Instant,
}

impl Collector {
    /// Creates the collector of a pool. Figures are cached for `refresh`.
    pub(crate) fn new(pool: &str, store: Store, refresh: Duration) -> Self {
        Self {
            sizes: store.shared_sizes(),
            store,
            refresh,
            failures: FAILURES.with_label_values(&[pool]),
            last: Mutex::default(),
        }
    }

    /// The figures of the servers that answered; `None` if no server did. They are at most `refresh` old, the figures
    /// of queues also 2.4 s for each 1,000 queues. Takes a few seconds at most. A failure is cached as well, so that
    /// Redis is not asked more often while it is unavailable.
    pub async fn collect(self: &Arc<Self>) -> Option<Arc<Collected>> {
        // A request ends when its client leaves. A collection that has begun must not: other processes wait for its end.
        let collector = Arc::clone(self);
        let collecting = run_to_end(async move { collector.collect_in_turn().await });
        collecting.await.flatten()
    }

    /// All queues as [`Self::collect`] reads them. If some could not be read, the last complete list of this process, and
    /// how old it is; before the first round, the figures that could be read. `None` if there are none.
    pub async fn known_queues(self: &Arc<Self>) -> Option<(Arc<AllQueues>, Option<Duration>)> {
        let collected = self.collect().await.map(|it| Arc::clone(&it.listed));
        if let Some(listed) = collected.as_ref().filter(|it| it.missing_buckets == 0) {
            return Some((Arc::clone(listed), None));
        }
        let complete = self.last.lock().await.complete.clone();
        let complete = complete.map(|(listed, at)| (listed, Some(at.elapsed())));
        complete.or_else(|| collected.map(|listed| (listed, None)))
    }

    async fn collect_in_turn(&self) -> Option<Arc<Collected>> {
        let mut last = self.last.lock().await;
        if last.valid_until.is_none_or(|until| Instant::now() >= until) {
            let known = last.sizes.take();
            let (sizes, server) = tokio::join!(
                self.current_sizes(known),
                self.store.server_figures(COLLECT_LIMIT)
            );
            let now = Instant::now();
            // Sizes that are not as recent as that are looked for again after the whole interval.
            let recent_until = sizes.began_at + self.refresh;
            let valid_until = if recent_until > now {
                recent_until
            } else {
                now + self.refresh
            };
            last.valid_until = Some(valid_until);
            if sizes.listed.missing_buckets == 0 {
                last.complete = Some((Arc::clone(&sizes.listed), sizes.began_at));
            }
            last.collected = collected(&sizes, server);
            last.sizes = Some(sizes);
        }
        last.collected.clone()
    }

    /// The stored sizes if they are recent; else the sizes that this process collects, or waits for.
    async fn current_sizes(&self, known: Option<KnownSizes>) -> KnownSizes {
        let shared = timeout(COLLECT_LIMIT, self.recent_or_claim(known.as_ref())).await;
        match shared {
            Ok(Ok(CurrentSizes::Stored(sizes))) => sizes,
            Ok(Ok(CurrentSizes::Claimed(claim))) => self.collect_for_all(&claim).await,
            // Without a place to share them, each process reads for itself.
            Ok(Err(error)) => {
                tracing::debug!(%error, "failed to read the stored sizes of queues; reading the queues");
                self.read().await
            }
            Err(_) => self.read().await,
        }
    }

    async fn recent_or_claim(
        &self,
        known: Option<&KnownSizes>,
    ) -> Result<CurrentSizes, StoreError> {
        let (mut damaged, mut look_again) = (None, LOOK_AGAIN.0);
        loop {
            let claim = self
                .sizes
                .claim(self.refresh, CLAIM_LEASE, damaged.as_deref());
            match claim.await? {
                SizesAnswer::Claimed(claim) => return Ok(CurrentSizes::Claimed(claim)),
                SizesAnswer::Busy => {
                    sleep(look_again).await;
                    look_again = (look_again * 2).min(LOOK_AGAIN.1);
                }
                SizesAnswer::Recent(version) => {
                    if let Some(known) =
                        known.filter(|known| known.id.as_ref() == Some(&version.id))
                    {
                        return Ok(CurrentSizes::Stored(known.clone()));
                    }
                    match self.stored(&version).await? {
                        Some(sizes) => return Ok(CurrentSizes::Stored(sizes)),
                        None => damaged = Some(version.id),
                    }
                }
            }
        }
    }

    /// Reads stored sizes; `None` if they are damaged, or replaced meanwhile.
    async fn stored(&self, version: &SizesVersion) -> Result<Option<KnownSizes>, StoreError> {
        let now = Instant::now();
        let began_at = now.checked_sub(version.age).unwrap_or(now);
        let Some(listed) = self.sizes.read(version).await? else {
            return Ok(None);
        };
        if listed.missing_buckets > 0 {
            self.failures.inc();
        }
        Ok(Some(KnownSizes {
            id: Some(version.id.clone()),
            listed: Arc::new(listed),
            began_at,
        }))
    }

    /// Collects the sizes, and stores them for the other processes.
    async fn collect_for_all(&self, claim: &SizesClaim) -> KnownSizes {
        let mut sizes = self.read().await;
        if is_nothing(&sizes.listed) {
            return sizes;
        }
        let finish = self.sizes.finish(claim, &sizes.listed, self.refresh);
        match timeout(COLLECT_LIMIT, finish).await {
            Ok(Ok(true)) => sizes.id = Some(claim.id.clone()),
            Ok(Ok(false)) | Err(_) => {}
            Ok(Err(error)) => {
                tracing::warn!(%error, "failed to store the sizes of queues for other processes; they read them from the queues");
            }
        }
        sizes
    }

    async fn read(&self) -> KnownSizes {
        let began_at = Instant::now();
        let listed = self.store.all_queues(COLLECT_LIMIT).await;
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
        KnownSizes {
            id: None,
            listed: Arc::new(listed),
            began_at,
        }
    }
}

/// The sizes that are stored, or the right to collect them.
enum CurrentSizes {
    Stored(KnownSizes),
    Claimed(SizesClaim),
}

fn is_nothing(listed: &AllQueues) -> bool {
    listed.queues.is_empty() && listed.missing_buckets > 0
}

fn collected(sizes: &KnownSizes, server: Option<ServerFigures>) -> Option<Arc<Collected>> {
    let is_nothing = is_nothing(&sizes.listed) && server.is_none();
    (!is_nothing).then(|| {
        Arc::new(Collected {
            listed: Arc::clone(&sizes.listed),
            began_at: sizes.began_at,
            server,
        })
    })
}
