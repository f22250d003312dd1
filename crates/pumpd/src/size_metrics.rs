//! The metrics of the sizes of queues. They are made for each scrape: what Redis does not have any more, or another
//! pump leads now, is not shown.

use std::sync::{Arc, LazyLock};

use futures_util::future::join_all;
use parking_lot::Mutex;
use prometheus::IntCounterVec;
use prometheus::proto::MetricFamily;
use tidegate_daemon::metrics::{
    GaugeFamily, MetricsConfig, OF_QUEUE, QueueRows, counters, gauges_of_scrape, labeled_rows,
    queue_rows,
};
use tidegate_store::{ListedQueue, QueueSizes, Store};
use tokio::task::spawn_blocking;

use crate::leases::BucketLeases;
use crate::sizes::{CollectedSizes, SizesCollector};

/// The families with one value for each pool.
const OF_POOLS: [GaugeFamily<CollectedSizes>; 6] = [
    (
        "tidegate_collection_up",
        "1 if the sizes of all queues in the buckets that this instance leads could be read from Redis, else 0.",
        |pool| Some(f64::from(u8::from(pool.missing_buckets == 0))),
    ),
    (
        "tidegate_collection_missing_buckets",
        "Number of buckets whose queues could not be read from Redis. The other metrics of queues do not include them.",
        |pool| Some(pool.missing_buckets as f64),
    ),
    (
        "tidegate_collection_age_seconds",
        "Time since the collection of the sizes of queues began, in seconds.",
        |pool| Some(pool.age?.as_secs_f64()),
    ),
    (
        "tidegate_oldest_overdue_seconds",
        "Time for which the earliest timer is overdue, in seconds. Timers are for delayed jobs, leases, and far slots to load. About 0 while pumps keep up.",
        |pool| Some(pool.sizes.as_ref()?.overdue_ms as f64 / 1000.0),
    ),
    ("tidegate_queues", "Number of known queues.", |pool| {
        Some(pool.sizes.as_ref()?.queues.len() as f64)
    }),
    (
        "infra_lmstfy_redis_timer_sizes",
        "Number of jobs in state delayed or leased.",
        |pool| {
            let queues = pool.sizes.as_ref()?.queues.iter();
            let timers = queues.map(|one| one.stats.delayed + one.stats.leased);
            Some(timers.sum::<u64>() as f64)
        },
    ),
];

/// The families with one value for each queue.
const OF_QUEUES: [GaugeFamily<ListedQueue>; 5] = [
    (
        "infra_lmstfy_redis_queue_sizes",
        "Number of jobs in state ready.",
        |queue| Some(queue.stats.ready as f64),
    ),
    (
        "infra_lmstfy_redis_deadletter_sizes",
        "Number of jobs in state dead.",
        |queue| Some(queue.stats.dead as f64),
    ),
    (
        "tidegate_queue_delayed_jobs",
        "Number of jobs in state delayed.",
        |queue| Some(queue.stats.delayed as f64),
    ),
    (
        "tidegate_queue_leased_jobs",
        "Number of jobs in state leased.",
        |queue| Some(queue.stats.leased as f64),
    ),
    (
        "tidegate_queue_oldest_ready_seconds",
        "Time since the next job became ready, in seconds. Absent if no job is ready, or if stale hints precede it.",
        |queue| Some(queue.oldest_ready_ms? as f64 / 1000.0),
    ),
];

static FAILURES: LazyLock<IntCounterVec> = LazyLock::new(|| {
    counters(
        "tidegate_collection_failures_total",
        "Number of times that the sizes of some queues could not be read from Redis.",
        &["pool"],
    )
});

/// The sizes of all pools whose pumps run. Clones share them.
#[derive(Debug, Clone)]
pub(crate) struct SizesPage {
    config: MetricsConfig,
    pools: Arc<Mutex<Vec<Arc<SizesCollector>>>>,
}

impl SizesPage {
    /// A page without pools.
    pub(crate) fn new(config: MetricsConfig) -> Self {
        Self {
            config,
            pools: Arc::default(),
        }
    }

    /// Adds a pool, in which this instance leads these buckets.
    pub(crate) fn add(&self, pool: &str, store: Store, leases: Arc<BucketLeases>) {
        let failures = FAILURES.with_label_values(&[pool]);
        let collector = SizesCollector::new(pool, store, leases, self.config.refresh, failures);
        self.pools.lock().push(Arc::new(collector));
    }

    /// Reads the sizes of all pools. Takes a few seconds at most, also while Redis does not answer.
    pub(crate) async fn families(self) -> Vec<MetricFamily> {
        let (collectors, queues_max) = (self.pools.lock().clone(), self.config.queues_max);
        let pools = join_all(collectors.iter().map(SizesCollector::collect)).await;
        // All queues are sorted, and there may be a hundred thousand: runs of buckets must not wait for that.
        let making = spawn_blocking(move || families(&pools, queues_max));
        // It does not panic.
        making.await.unwrap_or_default()
    }
}

/// The queues with the most jobs have series of their own.
fn size_rows(sizes: &QueueSizes, queues_max: usize) -> QueueRows<ListedQueue> {
    let jobs = |ListedQueue { stats, .. }: &ListedQueue| {
        stats.delayed + stats.ready + stats.leased + stats.dead
    };
    let together = |mut one: ListedQueue, other: ListedQueue| {
        one.add(&other);
        one
    };
    let queues = sizes.queues.iter();
    let queues = queues.map(|listed| (listed.queue.clone(), listed.clone()));
    queue_rows(queues.collect(), queues_max, jobs, together)
}

fn families(pools: &[CollectedSizes], queues_max: usize) -> Vec<MetricFamily> {
    let rows = pools.iter().map(|pool| {
        let rows = pool
            .sizes
            .as_ref()
            .map(|sizes| size_rows(sizes, queues_max));
        (&*pool.pool, rows.unwrap_or_default())
    });
    let rows: Vec<_> = rows.collect();
    let of_pools = OF_POOLS.iter().map(|family| {
        let samples = pools.iter().map(|pool| ([&*pool.pool], pool));
        gauges_of_scrape(family, ["pool"], samples)
    });
    let of_queues = OF_QUEUES.iter().map(|family| {
        let samples = rows
            .iter()
            .flat_map(|(pool, rows)| labeled_rows(pool, rows));
        gauges_of_scrape(family, OF_QUEUE, samples)
    });
    of_pools.chain(of_queues).collect()
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use tidegate_core::{JobsByState, QueueKey};

    use super::*;

    fn listed(name: &str, ready: u64, oldest_ready_ms: Option<u64>) -> ListedQueue {
        let stats = JobsByState {
            ready,
            delayed: 1,
            ..JobsByState::default()
        };
        ListedQueue {
            queue: QueueKey::try_from(name).unwrap(),
            stats,
            oldest_ready_ms,
        }
    }

    fn text(pool: CollectedSizes) -> String {
        let mut families = families(&[pool], 2);
        families.retain(|family| !family.get_metric().is_empty());
        let text = prometheus::TextEncoder::new().encode_to_string(&families);
        text.unwrap()
    }

    #[test]
    fn the_largest_queues_have_own_series_and_the_others_share_one() {
        let sizes = QueueSizes {
            queues: vec![
                listed("n/small", 1, Some(700)),
                listed("n/big", 9, Some(100)),
                listed("n/empty", 0, None),
                listed("n/middle", 5, Some(1500)),
            ],
            overdue_ms: 2500,
            missing_buckets: 3,
        };
        let text = text(CollectedSizes {
            pool: "p".into(),
            missing_buckets: sizes.missing_buckets,
            sizes: Some(sizes),
            age: Some(Duration::from_secs(4)),
        });
        let of = |namespace: &str, queue: &str| {
            format!(r#"{{namespace="{namespace}",pool="p",queue="{queue}"}}"#)
        };
        for expected in [
            format!("redis_queue_sizes{} 9", of("n", "big")),
            format!("redis_queue_sizes{} 5", of("n", "middle")),
            format!("redis_queue_sizes{} 1", of("_other", "_other")),
            format!("queue_delayed_jobs{} 2", of("_other", "_other")),
            format!("oldest_ready_seconds{} 0.1", of("n", "big")),
            format!("oldest_ready_seconds{} 0.7", of("_other", "_other")),
            "timer_sizes{pool=\"p\"} 4".to_owned(),
            "tidegate_queues{pool=\"p\"} 4".to_owned(),
            "tidegate_oldest_overdue_seconds{pool=\"p\"} 2.5".to_owned(),
            "tidegate_collection_age_seconds{pool=\"p\"} 4".to_owned(),
            "tidegate_collection_up{pool=\"p\"} 0".to_owned(),
            "tidegate_collection_missing_buckets{pool=\"p\"} 3".to_owned(),
        ] {
            assert!(text.contains(&expected), "{expected} is not in\n{text}");
        }
    }

    #[test]
    fn figures_that_could_not_be_read_are_absent() {
        let text = text(CollectedSizes {
            pool: "p".into(),
            sizes: None,
            missing_buckets: 256,
            age: None,
        });
        let samples: Vec<&str> = text.lines().filter(|line| !line.starts_with('#')).collect();
        let expected = [
            "tidegate_collection_up{pool=\"p\"} 0",
            "tidegate_collection_missing_buckets{pool=\"p\"} 256",
        ];
        assert_eq!(samples, expected);
    }
}
