//! What is counted of the jobs of a pool, altogether and by queue.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use metrics::{Counter, counter, describe_counter};
use tidegate_core::{Namespace, QueueKey};
use tidegate_service::metrics::{Family, Kind, MillisHistogram, Page};

use super::ledger::Ledger;
use super::requests::{RequestFigures, Told};
use super::{OTHER, queue_labels};
use crate::limits::Action;

/// Counters of a pool, in the order of [`PoolFigures`].
const COUNTERS: [(&str, &str); 11] = [
    ("infra_lmstfy_redis_publish_jobs", "Jobs that were stored"),
    (
        "infra_lmstfy_redis_consume_jobs",
        "Always 0, as it ever was; infra_lmstfy_redis_consume_multi_jobs counts",
    ),
    (
        "infra_lmstfy_redis_consume_multi_jobs",
        "Jobs that were written to their consumers",
    ),
    ("infra_lmstfy_redis_pool_add_jobs", "Jobs that were stored"),
    (
        "infra_lmstfy_redis_pool_get_jobs",
        "Jobs that were read, to be consumed or looked at",
    ),
    (
        "infra_lmstfy_redis_pool_delete_jobs",
        "Jobs that were deleted by request",
    ),
    (
        "infra_lmstfy_redis_timer_add_jobs",
        "Delays and leases that were begun",
    ),
    (
        "infra_lmstfy_redis_queue_direct_push_jobs",
        "Jobs that were ready when they were published",
    ),
    (
        "infra_lmstfy_redis_queue_pop_jobs",
        "Jobs that were taken to be consumed",
    ),
    (
        "infra_lmstfy_redis_deadletter_respawn_jobs",
        "Dead jobs that were made ready again",
    ),
    (
        "tidegate_jobs_released_total",
        "Jobs taken back because their consumers had gone, without costing a try",
    ),
];

const PUBLISHED: Family = Family {
    name: "infra_lmstfy_redis_publish_queue_jobs",
    kind: Kind::Counter,
    help: "Jobs that were stored, by queue",
};
const CONSUMED: Family = Family {
    name: "infra_lmstfy_redis_consume_queue_jobs",
    kind: Kind::Counter,
    help: "Jobs that were written to their consumers, by queue",
};
const ACKED: Family = Family {
    name: "tidegate_jobs_acked_total",
    kind: Kind::Counter,
    help: "Jobs that were acknowledged, or deleted by their id, by queue",
};
const ELAPSED: Family = Family {
    name: "infra_lmstfy_redis_job_elapsed_ms",
    kind: Kind::Histogram,
    help: "From the publishing of a job to its delivery, in ms",
};
const ACK_ELAPSED: Family = Family {
    name: "infra_lmstfy_redis_job_ack_elapsed_ms",
    kind: Kind::Histogram,
    help: "From the publishing of a job to its acknowledgement, in ms",
};

/// 15 ms times a power of 3.5.
const ELAPSED_BOUNDS_MS: [f64; 7] = [
    15.0,
    52.5,
    183.75,
    643.125,
    2250.9375,
    7878.28125,
    27_573.984_375,
];

/// Says once per process what the counters mean.
pub(super) fn describe() {
    for (name, meaning) in COUNTERS {
        describe_counter!(name, meaning);
    }
}

/// What is counted of a pool.
#[derive(Debug)]
pub(crate) struct PoolFigures {
    published: Counter,
    delivered: Counter,
    added: Counter,
    read: Counter,
    deleted: Counter,
    timed: Counter,
    pushed: Counter,
    popped: Counter,
    respawned: Counter,
    released: Counter,
    queues: Ledger<QueueKey, QueueFigures>,
    namespaces: Ledger<Namespace, RequestFigures>,
    /// Requests whose token opened no namespace.
    nowhere: Arc<RequestFigures>,
}

/// What is counted of a queue.
#[derive(Debug)]
struct QueueFigures {
    published: AtomicU64,
    consumed: AtomicU64,
    acked: AtomicU64,
    elapsed: MillisHistogram,
    ack_elapsed: MillisHistogram,
}

impl Default for QueueFigures {
    fn default() -> Self {
        Self {
            published: AtomicU64::default(),
            consumed: AtomicU64::default(),
            acked: AtomicU64::default(),
            elapsed: MillisHistogram::new(&ELAPSED_BOUNDS_MS),
            ack_elapsed: MillisHistogram::new(&ELAPSED_BOUNDS_MS),
        }
    }
}

impl PoolFigures {
    /// For the pool of this name. At most `names_max` queues, and as many namespaces, are told apart.
    pub(crate) fn new(pool: &str, names_max: usize) -> Self {
        let [
            published,
            // Registered, and never counted up.
            _,
            delivered,
            added,
            read,
            deleted,
            timed,
            pushed,
            popped,
            respawned,
            released,
        ] = COUNTERS.map(|(name, _)| counter!(name, "pool" => pool.to_owned()));
        Self {
            published,
            delivered,
            added,
            read,
            deleted,
            timed,
            pushed,
            popped,
            respawned,
            released,
            queues: Ledger::new(names_max),
            namespaces: Ledger::new(names_max),
            nowhere: Arc::default(),
        }
    }

    /// Jobs were stored.
    pub(crate) fn published(&self, queue: &QueueKey, jobs: usize, is_delayed: bool) {
        let jobs = jobs as u64;
        self.published.increment(jobs);
        self.added.increment(jobs);
        let way = if is_delayed {
            &self.timed
        } else {
            &self.pushed
        };
        way.increment(jobs);
        let figures = self.queues.of(queue);
        figures.published.fetch_add(jobs, Ordering::Relaxed);
    }

    /// Jobs were taken for consumers.
    pub(crate) fn reserved(&self, jobs: usize) {
        let jobs = jobs as u64;
        self.popped.increment(jobs);
        self.read.increment(jobs);
        self.timed.increment(jobs);
    }

    /// Jobs of these ages were written to their consumer.
    pub(crate) fn delivered(
        &self,
        queue: &QueueKey,
        ages: impl ExactSizeIterator<Item = Duration>,
    ) {
        let jobs = ages.len() as u64;
        if jobs == 0 {
            return;
        }
        self.delivered.increment(jobs);
        let figures = self.queues.of(queue);
        figures.consumed.fetch_add(jobs, Ordering::Relaxed);
        ages.for_each(|age| figures.elapsed.record(age));
    }

    /// A job was taken back.
    pub(crate) fn released(&self) {
        self.released.increment(1);
    }

    /// A job was looked at.
    pub(crate) fn peeked(&self) {
        self.read.increment(1);
    }

    /// A job of this age was deleted by its id.
    pub(crate) fn acked(&self, queue: &QueueKey, age: Duration) {
        self.deleted.increment(1);
        let figures = self.queues.of(queue);
        figures.acked.fetch_add(1, Ordering::Relaxed);
        figures.ack_elapsed.record(age);
    }

    /// Jobs were deleted by the queue.
    pub(crate) fn purged(&self, jobs: u64) {
        self.deleted.increment(jobs);
    }

    /// Dead jobs were made ready.
    pub(crate) fn respawned(&self, jobs: u64) {
        self.respawned.increment(jobs);
    }

    /// A request was refused because its token has a limit.
    pub(crate) fn limited(&self, namespace: &Namespace, action: Action) {
        self.namespaces.of(namespace).limited(action);
    }

    /// Where to note what becomes of a request: `namespace` is the one that its token opened.
    pub(crate) fn requests(&self, namespace: Option<&Namespace>) -> Arc<RequestFigures> {
        match namespace {
            Some(namespace) => self.namespaces.of(namespace),
            None => Arc::clone(&self.nowhere),
        }
    }
}

/// What is counted of a pool, to be written. The figures of a namespace stay while they are written.
pub(super) struct Snapshot<'a> {
    pool: &'a str,
    figures: &'a PoolFigures,
    queues: Vec<(Option<QueueKey>, Arc<QueueFigures>)>,
    namespaces: Vec<(Option<Namespace>, Arc<RequestFigures>)>,
}

impl<'a> Snapshot<'a> {
    pub(super) fn new(pool: &'a str, figures: &'a PoolFigures) -> Self {
        Self {
            pool,
            figures,
            queues: figures.queues.all(),
            namespaces: figures.namespaces.all(),
        }
    }

    /// The requests that came to this pool.
    pub(super) fn requests(&self) -> impl Iterator<Item = Told<'_>> {
        let by_namespace = self.namespaces.iter().map(|(namespace, figures)| {
            let namespace = namespace.as_ref();
            (namespace.map_or(OTHER, Namespace::as_str), &**figures)
        });
        let all = by_namespace.chain([("", &*self.figures.nowhere)]);
        all.map(|(namespace, figures)| Told {
            pool: self.pool,
            namespace,
            figures,
        })
    }
}

/// One of the figures of a queue.
type Part<T> = fn(&QueueFigures) -> &T;

/// Writes the families of queues.
pub(super) fn write(page: &mut Page, pools: &[Snapshot<'_>]) {
    let counters: [(&Family, Part<AtomicU64>); 3] = [
        (&PUBLISHED, |figures| &figures.published),
        (&CONSUMED, |figures| &figures.consumed),
        (&ACKED, |figures| &figures.acked),
    ];
    for (family, counter) in counters {
        let mut samples = page.family(family);
        for (pool, queue, figures) in queues(pools) {
            let count = counter(figures).load(Ordering::Relaxed);
            if count > 0 {
                samples.add(&queue_labels(pool, queue), count);
            }
        }
    }
    let histograms: [(&Family, Part<MillisHistogram>); 2] = [
        (&ELAPSED, |figures| &figures.elapsed),
        (&ACK_ELAPSED, |figures| &figures.ack_elapsed),
    ];
    for (family, histogram) in histograms {
        let mut samples = page.family(family);
        for (pool, queue, figures) in queues(pools) {
            if !histogram(figures).is_empty() {
                samples.add_histogram(&queue_labels(pool, queue), histogram(figures));
            }
        }
    }
}

fn queues<'a>(
    pools: &'a [Snapshot<'a>],
) -> impl Iterator<Item = (&'a str, Option<&'a QueueKey>, &'a QueueFigures)> {
    pools.iter().flat_map(|snapshot| {
        let queues = snapshot.queues.iter();
        queues.map(|(queue, figures)| (snapshot.pool, queue.as_ref(), &**figures))
    })
}
