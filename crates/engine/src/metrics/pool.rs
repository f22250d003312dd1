//! The metrics of jobs, by pool and by queue.

use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, LazyLock};
use std::time::Duration;

use prometheus::proto::MetricFamily;
use prometheus::{Histogram, IntCounter, IntCounterVec, exponential_buckets};
use tidegate_core::{Namespace, QueueKey};
use tidegate_daemon::metrics::{
    FamilyTexts, OF_QUEUE, counters, counters_of_scrape, histogram, histograms_of_scrape,
    labeled_rows, may_have_series,
};

use super::series_table::SeriesTable;

/// The names and help texts of the counters of a pool, in the order of [`Count`]. The last counter is never
/// incremented.
const COUNTERS: [FamilyTexts; 12] = [
    ("infra_lmstfy_redis_publish_jobs", "Number of jobs stored."),
    (
        "infra_lmstfy_redis_consume_multi_jobs",
        "Number of jobs written to consumers.",
    ),
    ("infra_lmstfy_redis_pool_add_jobs", "Number of jobs stored."),
    (
        "infra_lmstfy_redis_pool_get_jobs",
        "Number of jobs read: reserved for consumers, or peeked at.",
    ),
    (
        "infra_lmstfy_redis_pool_delete_jobs",
        "Number of jobs deleted by request: acknowledged, cancelled, or purged.",
    ),
    (
        "infra_lmstfy_redis_timer_add_jobs",
        "Number of jobs published with a delay, and of leases started.",
    ),
    (
        "infra_lmstfy_redis_queue_direct_push_jobs",
        "Number of jobs that were ready when published.",
    ),
    (
        "infra_lmstfy_redis_queue_pop_jobs",
        "Number of jobs reserved for consumers.",
    ),
    (
        "infra_lmstfy_redis_deadletter_respawn_jobs",
        "Number of dead jobs made ready again.",
    ),
    (
        "tidegate_jobs_released_total",
        "Number of reserved jobs released by their consumers, or as they could not be delivered. A release does not use up an attempt.",
    ),
    (
        "tidegate_jobs_dead_total",
        "Number of jobs that died when a worker reported a failure. Pumps count those whose lease expired.",
    ),
    (
        "infra_lmstfy_redis_consume_jobs",
        "Always 0. Kept for lmstfy dashboards; use infra_lmstfy_redis_consume_multi_jobs.",
    ),
];

/// The counters of a pool.
#[derive(Debug, Clone, Copy)]
enum Count {
    Published,
    Delivered,
    Added,
    Read,
    Deleted,
    Timed,
    Pushed,
    Popped,
    Respawned,
    Released,
    Dead,
}

static OF_POOL: LazyLock<[IntCounterVec; COUNTERS.len()]> =
    LazyLock::new(|| COUNTERS.map(|(name, help)| counters(name, help, &["pool"])));

/// A family of queues: its name, its help text, and its metric of a queue.
type QueueFamily<M> = (&'static str, &'static str, fn(&QueueMetrics) -> &M);

/// The counters of a queue.
const QUEUE_COUNTERS: [QueueFamily<AtomicU64>; 4] = [
    (
        "infra_lmstfy_redis_publish_queue_jobs",
        "Number of jobs stored, by queue.",
        |queue| &queue.published,
    ),
    (
        "infra_lmstfy_redis_consume_queue_jobs",
        "Number of jobs written to consumers, by queue.",
        |queue| &queue.consumed,
    ),
    (
        "tidegate_jobs_acked_total",
        "Number of jobs acknowledged, by queue. The lmstfy wire deletes a job by an ack.",
        |queue| &queue.acked,
    ),
    (
        "tidegate_queue_rate_holds_total",
        "Number of times that the rate of the queue, or of the limit that it shares, held its consumers back.",
        |queue| &queue.rate_holds,
    ),
];

/// The histograms of a queue.
const QUEUE_HISTOGRAMS: [QueueFamily<Histogram>; 2] = [
    (
        "infra_lmstfy_redis_job_elapsed_ms",
        "Time from the publish of a job to its delivery, in milliseconds.",
        |queue| &queue.elapsed,
    ),
    (
        "infra_lmstfy_redis_job_ack_elapsed_ms",
        "Time from the publish of a job to its acknowledgement, in milliseconds.",
        |queue| &queue.ack_elapsed,
    ),
];

#[derive(Debug)]
pub(crate) struct PoolMetrics {
    counters: [IntCounter; COUNTERS.len()],
    queues: SeriesTable<QueueKey, QueueMetrics>,
    /// The publishes that a limit of their namespace has refused, by namespace and name of the limit.
    pub(super) refusals: SeriesTable<(Namespace, &'static str), AtomicU64>,
}

/// How many jobs went through this process since it started.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct JobTraffic {
    /// Jobs that were stored.
    pub published: u64,
    /// Jobs that were written to consumers.
    pub delivered: u64,
    /// Jobs that were acknowledged, or deleted by a client.
    pub ended: u64,
}

/// The metrics of a queue. A series is shown from its first event on.
#[derive(Debug)]
struct QueueMetrics {
    published: AtomicU64,
    consumed: AtomicU64,
    acked: AtomicU64,
    rate_holds: AtomicU64,
    elapsed: Histogram,
    ack_elapsed: Histogram,
}

impl Default for QueueMetrics {
    fn default() -> Self {
        // 15 ms times the powers of 3.5, as in lmstfy.
        let bounds = exponential_buckets(15.0, 3.5, 7).expect("valid buckets");
        Self {
            published: AtomicU64::default(),
            consumed: AtomicU64::default(),
            acked: AtomicU64::default(),
            rate_holds: AtomicU64::default(),
            elapsed: histogram(&bounds),
            ack_elapsed: histogram(&bounds),
        }
    }
}

impl QueueMetrics {
    fn traffic(&self) -> JobTraffic {
        JobTraffic {
            published: self.published.load(Relaxed),
            delivered: self.consumed.load(Relaxed),
            ended: self.acked.load(Relaxed),
        }
    }

    fn consumed(&self, ages: impl ExactSizeIterator<Item = Duration>) {
        self.consumed.fetch_add(ages.len() as u64, Relaxed);
        ages.for_each(|age| self.elapsed.observe(millis(age)));
    }

    fn acked(&self, age: Duration) {
        self.acked.fetch_add(1, Relaxed);
        self.ack_elapsed.observe(millis(age));
    }
}

/// The families of the queues of these pools.
pub(super) fn families_of_queues<'a>(
    pools: impl Iterator<Item = (&'a str, &'a PoolMetrics)>,
) -> Vec<MetricFamily> {
    let rows: Vec<_> = pools.map(|(pool, it)| (pool, it.queues.rows())).collect();
    let rows = || {
        rows.iter()
            .flat_map(|(pool, rows)| labeled_rows(pool, rows))
    };
    let counters = QUEUE_COUNTERS.into_iter().map(|(name, help, count)| {
        let counts = rows().map(|(labels, queue)| (labels, count(queue).load(Relaxed)));
        counters_of_scrape(
            (name, help),
            OF_QUEUE,
            counts.filter(|(_, count)| *count > 0),
        )
    });
    let histograms = QUEUE_HISTOGRAMS.into_iter().map(|(name, help, histogram)| {
        let histograms = rows().map(|(labels, queue)| (labels, histogram(queue)));
        histograms_of_scrape((name, help), OF_QUEUE, histograms)
    });
    counters.chain(histograms).collect()
}

fn millis(duration: Duration) -> f64 {
    duration.as_secs_f64() * 1000.0
}

impl PoolMetrics {
    /// Creates the metrics of a pool. At most `queues_max` queues have metrics of their own.
    pub(crate) fn new(pool: &str, queues_max: usize) -> Self {
        Self {
            counters: OF_POOL
                .each_ref()
                .map(|family| family.with_label_values(&[pool])),
            queues: SeriesTable::new(queues_max),
            refusals: SeriesTable::new(queues_max),
        }
    }

    /// The jobs that went through this process.
    pub(crate) fn traffic(&self) -> JobTraffic {
        let count = |count: Count| self.counters[count as usize].get();
        JobTraffic {
            published: count(Count::Published),
            delivered: count(Count::Delivered),
            ended: count(Count::Deleted),
        }
    }

    /// The jobs of one queue that went through this process; `None` if the queue has no metrics of its own.
    pub(crate) fn traffic_of(&self, queue: &QueueKey) -> Option<JobTraffic> {
        Some(self.queues.known(queue)?.traffic())
    }

    fn of_queue(&self, queue: &QueueKey) -> Arc<QueueMetrics> {
        match may_have_series(queue) {
            true => self.queues.get(queue),
            false => self.queues.others(),
        }
    }

    fn count(&self, count: Count, jobs: u64) {
        self.counters[count as usize].inc_by(jobs);
    }

    /// Counts stored jobs. `is_delayed` applies to all of them.
    pub(crate) fn published(&self, queue: &QueueKey, jobs: usize, is_delayed: bool) {
        let jobs = jobs as u64;
        self.count(Count::Published, jobs);
        self.count(Count::Added, jobs);
        let way = if is_delayed {
            Count::Timed
        } else {
            Count::Pushed
        };
        self.count(way, jobs);
        self.of_queue(queue).published.fetch_add(jobs, Relaxed);
    }

    /// Counts jobs reserved for consumers.
    pub(crate) fn reserved(&self, jobs: usize) {
        let jobs = jobs as u64;
        self.count(Count::Popped, jobs);
        self.count(Count::Read, jobs);
        self.count(Count::Timed, jobs);
    }

    /// Counts jobs written to a consumer, by their ages.
    pub(crate) fn delivered(
        &self,
        queue: &QueueKey,
        ages: impl ExactSizeIterator<Item = Duration>,
    ) {
        let jobs = ages.len() as u64;
        if jobs == 0 {
            return;
        }
        self.count(Count::Delivered, jobs);
        self.of_queue(queue).consumed(ages);
    }

    /// Counts that a rate held the consumers of a queue back.
    pub(crate) fn held_back(&self, queue: &QueueKey) {
        self.of_queue(queue).rate_holds.fetch_add(1, Relaxed);
    }

    /// Counts a released job.
    pub(crate) fn released(&self) {
        self.count(Count::Released, 1);
    }

    /// Counts jobs that are dead since a worker reported a failure.
    pub(crate) fn died(&self, jobs: u64) {
        self.count(Count::Dead, jobs);
    }

    /// Counts a job that was peeked at.
    pub(crate) fn peeked(&self) {
        self.count(Count::Read, 1);
    }

    /// Counts a job of this age that was acknowledged, or deleted by id with an ack.
    pub(crate) fn acked(&self, queue: &QueueKey, age: Duration) {
        self.of_queue(queue).acked(age);
    }

    /// Counts jobs that were deleted by request.
    pub(crate) fn deleted(&self, jobs: u64) {
        self.count(Count::Deleted, jobs);
    }

    /// Counts dead jobs that were made ready.
    pub(crate) fn respawned(&self, jobs: u64) {
        self.count(Count::Respawned, jobs);
    }
}
