//! The sizes of the queues in the buckets that this instance leads. They are read from Redis for a scrape.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use prometheus::IntCounter;
use tidegate_daemon::run_to_end;
use tidegate_store::{BucketSizes, QueueSizes, ReadSizes, Store};
use tokio::sync::Mutex;
use tokio::time::Instant;

use crate::leases::BucketLeases;

/// The time limit of a read. It must be less than the scrape timeout of Prometheus, 10 s by default.
const READ_MAX: Duration = Duration::from_secs(3);
/// How long sizes of 1,000 queues are used at least. Reading them takes about 10 ms of Redis's CPU
/// (docs/benchmarks.md), so the scrapes of a pump take at most about 1/240 of it.
const PAUSE_PER_1000_QUEUES: Duration = Duration::from_millis(2_400);

/// Reads the sizes for one pool, one reader at a time, and uses them for a while.
#[derive(Debug)]
pub(crate) struct SizesCollector {
    pool: Arc<str>,
    store: Store,
    leases: Arc<BucketLeases>,
    refresh: Duration,
    failures: IntCounter,
    known: Mutex<KnownSizes>,
}

/// The sizes of the buckets that were led when they were read.
#[derive(Debug, Default)]
struct KnownSizes {
    /// When all buckets are read again; `None` = at once.
    valid_until: Option<Instant>,
    /// `None` for a bucket that could not be read.
    buckets: BTreeMap<u16, Option<KnownBucket>>,
}

#[derive(Debug, Clone)]
struct KnownBucket {
    sizes: Arc<BucketSizes>,
    began_at: Instant,
}

/// The sizes for one scrape.
#[derive(Debug)]
pub(crate) struct CollectedSizes {
    pub(crate) pool: Arc<str>,
    /// `None` if no bucket could be read.
    pub(crate) sizes: Option<QueueSizes>,
    pub(crate) missing_buckets: usize,
    /// How long ago the first of these reads began.
    pub(crate) age: Option<Duration>,
}

impl SizesCollector {
    /// Sizes are used for `refresh`. `failures` counts reads that failed.
    pub(crate) fn new(
        pool: &str,
        store: Store,
        leases: Arc<BucketLeases>,
        refresh: Duration,
        failures: IntCounter,
    ) -> Self {
        Self {
            pool: pool.into(),
            store,
            leases,
            refresh,
            failures,
            known: Mutex::default(),
        }
    }

    /// The sizes of all buckets that this instance leads. Takes a few seconds at most. The sizes of a bucket that it
    /// has lost end at once, also if it was lost during the read; a bucket that it gains is read by the next scrape.
    pub(crate) async fn collect(self: &Arc<Self>) -> CollectedSizes {
        let collector = Arc::clone(self);
        // A read that has begun ends although its scrape ends, so scrapers that leave cause no more reads.
        let known = run_to_end(async move { collector.read_due().await }).await;
        let (mut known, led) = (known.unwrap_or_default(), self.leases.held());
        known.retain(|bucket, _| led.contains(bucket));
        let buckets = || known.values().map(Option::as_ref);
        let sizes = QueueSizes::of(buckets().map(|it| Some(&*it?.sizes)));
        CollectedSizes {
            pool: Arc::clone(&self.pool),
            missing_buckets: sizes.missing_buckets,
            age: buckets().flatten().map(|it| it.began_at.elapsed()).max(),
            sizes: (known.is_empty() || sizes.missing_buckets < known.len()).then_some(sizes),
        }
    }

    /// Reads the buckets whose sizes are old or not known.
    async fn read_due(&self) -> BTreeMap<u16, Option<KnownBucket>> {
        let mut known = self.known.lock().await;
        if known
            .valid_until
            .is_none_or(|until| Instant::now() >= until)
        {
            *known = KnownSizes::default();
        }
        let led = self.leases.held();
        known.buckets.retain(|bucket, _| led.contains(bucket));
        let is_unknown = |bucket: &u16| !known.buckets.contains_key(bucket);
        let wanted: BTreeSet<u16> = led.into_iter().filter(is_unknown).collect();
        if !wanted.is_empty() {
            let read = self.read(wanted).await;
            known.buckets.extend(read);
            let valid_until = Instant::now() + known.kept_for(self.refresh);
            known.valid_until = Some(known.valid_until.unwrap_or(valid_until).min(valid_until));
        }
        known.buckets.clone()
    }

    async fn read(
        &self,
        wanted: BTreeSet<u16>,
    ) -> impl Iterator<Item = (u16, Option<KnownBucket>)> + use<> {
        let began_at = Instant::now();
        let ReadSizes { buckets, error } = self.store.read_sizes(wanted, READ_MAX).await;
        let missing_buckets = buckets.values().filter(|it| it.is_none()).count();
        if missing_buckets > 0 {
            self.failures.inc();
            let error = error.map_or_else(|| "timed out".to_owned(), |error| error.to_string());
            let pool = &*self.pool;
            tracing::warn!(
                pool,
                missing_buckets,
                error,
                "failed to read the sizes of queues; metrics do not include the missing buckets"
            );
        }
        let known = move |sizes| KnownBucket {
            sizes: Arc::new(sizes),
            began_at,
        };
        let buckets = buckets.into_iter();
        buckets.map(move |(bucket, sizes)| (bucket, sizes.map(known)))
    }
}

impl KnownSizes {
    /// How long these sizes are used. If buckets are missing, they are read again soon.
    fn kept_for(&self, refresh: Duration) -> Duration {
        let queues = |bucket: &Option<KnownBucket>| Some(bucket.as_ref()?.sizes.queues.len());
        let queues: Option<usize> = self.buckets.values().map(queues).sum();
        let thousands = u32::try_from(queues.unwrap_or(0) / 1000).unwrap_or(u32::MAX);
        refresh.max(PAUSE_PER_1000_QUEUES.saturating_mul(thousands))
    }
}
