//! The gauges of queues and servers, from the figures that were read from Redis. They are collected for each scrape: what
//! Redis does not have any more is not shown.

use std::cmp::Reverse;
use std::ops::Add;
use std::sync::Arc;

use prometheus::core::Collector;
use prometheus::proto::MetricFamily;
use prometheus::{GaugeVec, Opts};
use tidegate_core::{JobsByState, QueueKey};
use tidegate_store::{ListedQueue, ServerFigures};

use super::collector::Collected;
use super::{OF_QUEUE, may_have_series, queue_labels};

/// A family of gauges: its name, its help text, and its value for a pool or a row, if that has one.
type Family<T> = (&'static str, &'static str, fn(&T) -> Option<f64>);

/// The families with one value for each pool.
const OF_POOLS: [Family<PoolGauges>; 15] = [
    (
        "tidegate_collection_up",
        "1 if the sizes of all queues could be read from Redis, else 0.",
        |pool| {
            let known = pool.collected.as_ref();
            let is_whole = known.is_some_and(|known| known.listed.missing_buckets == 0);
            Some(f64::from(u8::from(is_whole)))
        },
    ),
    (
        "tidegate_collection_missing_buckets",
        "Number of buckets whose queues could not be read from Redis. The other metrics of queues do not include them.",
        |pool| Some(pool.collected.as_ref()?.listed.missing_buckets as f64),
    ),
    (
        "tidegate_collection_age_seconds",
        "Time since the collection of the sizes of queues began, in seconds.",
        |pool| Some(pool.collected.as_ref()?.began_at.elapsed().as_secs_f64()),
    ),
    (
        "tidegate_oldest_overdue_seconds",
        "Time for which the earliest timer is overdue, in seconds: that of a delayed job, a lease, or the loading of a far slot. About 0 while pumps keep up.",
        |pool| Some(pool.collected.as_ref()?.listed.overdue_ms as f64 / 1000.0),
    ),
    ("tidegate_queues", "Number of known queues.", |pool| {
        Some(pool.collected.as_ref()?.listed.queues.len() as f64)
    }),
    (
        "infra_lmstfy_redis_timer_sizes",
        "Number of jobs in state delayed or leased.",
        |pool| {
            let queues = pool.collected.as_ref()?.listed.queues.iter();
            let timers = queues.map(|one| one.stats.delayed + one.stats.leased);
            Some(timers.sum::<u64>() as f64)
        },
    ),
    (
        "infra_lmstfy_redis_max_mem_bytes",
        "Memory limit of Redis (maxmemory), in bytes; 0 = no limit. Of a cluster, the sum over its primaries.",
        |pool| Some(pool.server()?.max_mem_bytes as f64),
    ),
    (
        "infra_lmstfy_redis_used_mem_bytes",
        "Memory used by Redis, in bytes. Of a cluster, the sum over its primaries.",
        |pool| Some(pool.server()?.used_mem_bytes as f64),
    ),
    (
        "infra_lmstfy_redis_connections",
        "Number of client connections to the Redis server.",
        |pool| Some(pool.server()?.connections as f64),
    ),
    (
        "infra_lmstfy_redis_blocking_connections",
        "Number of client connections to the Redis server in a blocking command. Tidegate uses none.",
        |pool| Some(pool.server()?.blocking_connections as f64),
    ),
    (
        "infra_lmstfy_redis_total_keys",
        "Number of keys in the Redis database. Many jobs share one key.",
        |pool| Some(pool.server()?.total_keys as f64),
    ),
    (
        "infra_lmstfy_redis_total_ttl_keys",
        "Number of keys with a time to live in the Redis database. Jobs have none.",
        |pool| Some(pool.server()?.total_ttl_keys as f64),
    ),
    (
        "tidegate_redis_without_append_only_file",
        "Number of Redis servers without an append-only file (appendonly). If one restarts, it loses jobs.",
        |pool| Some(pool.server()?.without_append_only_file as f64),
    ),
    (
        "tidegate_redis_evicting",
        "Number of Redis servers that may evict jobs: maxmemory-policy is not noeviction.",
        |pool| Some(pool.server()?.evicting as f64),
    ),
    (
        "tidegate_redis_other_layout",
        "1 if the layout of the data in Redis is missing or another one, as Redis was emptied or replaced, else 0.",
        |pool| Some(f64::from(u8::from(pool.server()?.has_other_layout?))),
    ),
];

/// The families with one value for each queue.
const OF_QUEUES: [Family<QueueSize>; 5] = [
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

const WAITING: Family<usize> = (
    "tidegate_queue_waiting_consumers",
    "Number of consumers in this process that wait for jobs of the queue.",
    |consumers| Some(*consumers as f64),
);

/// The gauges of a pool.
pub(crate) struct PoolGauges {
    pool: Arc<str>,
    collected: Option<Arc<Collected>>,
    queues: Rows<QueueSize>,
    waiting: Rows<usize>,
}

/// Figures of queues; without a name, of all queues beyond the limit together.
type Rows<T> = Vec<(Option<QueueKey>, T)>;

struct QueueSize {
    stats: JobsByState,
    oldest_ready_ms: Option<u64>,
}

impl PoolGauges {
    /// At most `names_max` queues have series of their own: the queues with the most jobs, and, for waiting consumers,
    /// the queues with the most consumers.
    pub(crate) fn new(
        pool: Arc<str>,
        collected: Option<Arc<Collected>>,
        waiting: Vec<(QueueKey, usize)>,
        names_max: usize,
    ) -> Self {
        let listed = collected
            .iter()
            .flat_map(|collected| &collected.listed.queues);
        Self {
            pool,
            queues: rows(listed.map(size).collect(), names_max, jobs, together),
            waiting: rows(waiting, names_max, |consumers| *consumers, usize::add),
            collected,
        }
    }

    fn server(&self) -> Option<&ServerFigures> {
        self.collected.as_ref()?.server()
    }
}

fn size(listed: &ListedQueue) -> (QueueKey, QueueSize) {
    let size = QueueSize {
        stats: listed.stats,
        oldest_ready_ms: listed.oldest_ready_ms,
    };
    (listed.queue.clone(), size)
}

fn jobs(QueueSize { stats, .. }: &QueueSize) -> u64 {
    stats.delayed + stats.ready + stats.leased + stats.dead
}

fn together(mut one: QueueSize, other: QueueSize) -> QueueSize {
    one.stats += other.stats;
    one.oldest_ready_ms = one.oldest_ready_ms.max(other.oldest_ready_ms);
    one
}

/// The rows of the `names_max` queues with the highest `rank` that may have their own, and one of the others.
fn rows<T, R: Ord>(
    mut queues: Vec<(QueueKey, T)>,
    names_max: usize,
    rank: impl Fn(&T) -> R,
    together: impl Fn(T, T) -> T,
) -> Rows<T> {
    queues.sort_by(|(one, of_one), (other, of_other)| {
        let place = |queue, figures| (!may_have_series(queue), Reverse(rank(figures)));
        (place(one, of_one), one).cmp(&(place(other, of_other), other))
    });
    let named = queues.partition_point(|(queue, _)| may_have_series(queue));
    let others = queues.split_off(names_max.min(named));
    let others = others.into_iter().map(|(_, figures)| figures);
    let known = queues
        .into_iter()
        .map(|(queue, figures)| (Some(queue), figures));
    let rest = others.reduce(together).map(|figures| (None, figures));
    known.chain(rest).collect()
}

/// The gauges of all pools.
pub(crate) fn families(pools: &[PoolGauges]) -> Vec<MetricFamily> {
    let of_pools = OF_POOLS.iter().flat_map(|family| {
        let samples = pools.iter().map(|state| ([&*state.pool], state));
        made(family, ["pool"], samples)
    });
    let of_queues = OF_QUEUES.iter().flat_map(|family| {
        let samples = pools.iter().flat_map(|state| samples(state, &state.queues));
        made(family, OF_QUEUE, samples)
    });
    let waiting = pools
        .iter()
        .flat_map(|state| samples(state, &state.waiting));
    let waiting = made(&WAITING, OF_QUEUE, waiting);
    of_pools.chain(of_queues).chain(waiting).collect()
}

fn samples<'a, T>(
    state: &'a PoolGauges,
    rows: &'a Rows<T>,
) -> impl Iterator<Item = ([&'a str; 3], &'a T)> {
    let rows = rows.iter();
    rows.map(|(queue, figures)| (queue_labels(&state.pool, queue.as_ref()), figures))
}

/// Makes a family of the figures, each with the values of its labels.
fn made<'a, T: 'a, const LABELS: usize>(
    (name, help, value): &Family<T>,
    labels: [&str; LABELS],
    samples: impl Iterator<Item = ([&'a str; LABELS], &'a T)>,
) -> Vec<MetricFamily> {
    let gauges = GaugeVec::new(Opts::new(*name, *help), &labels).expect("a valid family");
    for (labels, figures) in samples {
        if let Some(value) = value(figures) {
            gauges.with_label_values(&labels).set(value);
        }
    }
    gauges.collect()
}

#[cfg(test)]
mod tests {
    use tidegate_core::JobId;
    use tidegate_store::AllQueues;
    use tokio::time::Instant;

    use super::*;

    fn key(name: &str) -> QueueKey {
        QueueKey::try_from(name).unwrap()
    }

    fn listed(name: &str, ready: u64, oldest_ready_ms: Option<u64>) -> ListedQueue {
        let stats = JobsByState {
            ready,
            delayed: 1,
            ..JobsByState::default()
        };
        ListedQueue {
            queue: key(name),
            stats,
            oldest_ready_ms,
        }
    }

    fn text(states: &[PoolGauges]) -> String {
        let mut families = families(states);
        families.retain(|family| !family.get_metric().is_empty());
        let text = prometheus::TextEncoder::new().encode_to_string(&families);
        text.unwrap()
    }

    #[test]
    fn the_largest_queues_have_own_series_and_the_others_share_one() {
        let reply = format!("n/{}", JobId::new(1_763_700_000_123, 1, 2, 3));
        let listed = AllQueues {
            queues: vec![
                listed(&reply, 20, None),
                listed("n/small", 1, Some(700)),
                listed("n/big", 9, Some(100)),
                listed("n/empty", 0, None),
                listed("n/middle", 5, Some(1500)),
            ],
            overdue_ms: 2500,
            missing_buckets: 3,
            error: None,
        };
        let collected = Collected {
            listed: Arc::new(listed),
            began_at: Instant::now(),
            server: None,
        };
        let waiting = vec![(key("n/a"), 1), (key("n/b"), 3), (key("n/c"), 1)];
        let state = PoolGauges::new("p".into(), Some(Arc::new(collected)), waiting, 2);
        let text = text(&[state]);
        let of = |namespace: &str, queue: &str| {
            format!(r#"{{namespace="{namespace}",pool="p",queue="{queue}"}}"#)
        };
        for expected in [
            format!("redis_queue_sizes{} 9", of("n", "big")),
            format!("redis_queue_sizes{} 5", of("n", "middle")),
            format!("redis_queue_sizes{} 21", of("_other", "_other")),
            format!("queue_delayed_jobs{} 3", of("_other", "_other")),
            format!("oldest_ready_seconds{} 0.1", of("n", "big")),
            format!("oldest_ready_seconds{} 0.7", of("_other", "_other")),
            format!("waiting_consumers{} 3", of("n", "b")),
            format!("waiting_consumers{} 1", of("_other", "_other")),
            "timer_sizes{pool=\"p\"} 5".to_owned(),
            "tidegate_queues{pool=\"p\"} 5".to_owned(),
            "tidegate_oldest_overdue_seconds{pool=\"p\"} 2.5".to_owned(),
            "tidegate_collection_up{pool=\"p\"} 0".to_owned(),
            "tidegate_collection_missing_buckets{pool=\"p\"} 3".to_owned(),
        ] {
            assert!(text.contains(&expected), "{expected} is not in\n{text}");
        }
    }

    #[test]
    fn figures_that_could_not_be_read_are_absent() {
        let text = text(&[PoolGauges::new("p".into(), None, vec![], 2)]);
        let samples: Vec<&str> = text.lines().filter(|line| !line.starts_with('#')).collect();
        assert_eq!(samples, ["tidegate_collection_up{pool=\"p\"} 0"]);
    }
}
