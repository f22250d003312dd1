//! The state of queues and servers, as it was read from Redis.

use std::cmp::Reverse;
use std::fmt::Display;
use std::sync::Arc;

use tidegate_core::QueueKey;
use tidegate_service::metrics::{Family, Kind, Page};
use tidegate_store::{ListedQueue, ServerFigures, Stats};

use super::collector::Collected;
use super::queue_labels;

const fn gauge(name: &'static str, help: &'static str) -> Family {
    Family {
        name,
        kind: Kind::Gauge,
        help,
    }
}

const COLLECTED: Family = gauge(
    "tidegate_collection_up",
    "Whether the figures of all queues could be read from Redis, 1 or 0.",
);
const MISSING: Family = gauge(
    "tidegate_collection_missing_buckets",
    "Number of buckets whose queues could not be read from Redis and are left out of the other figures.",
);
const QUEUES: Family = gauge("tidegate_queues", "Queues that are known");
const TIMERS: Family = gauge(
    "infra_lmstfy_redis_timer_sizes",
    "Jobs that are delayed or leased",
);
const READY: Family = gauge(
    "infra_lmstfy_redis_queue_sizes",
    "Jobs that could be consumed now",
);
const DEAD: Family = gauge(
    "infra_lmstfy_redis_deadletter_sizes",
    "Jobs whose tries are used up",
);
const DELAYED: Family = gauge(
    "tidegate_queue_delayed_jobs",
    "Jobs that wait for their time",
);
const LEASED: Family = gauge(
    "tidegate_queue_leased_jobs",
    "Jobs in the hands of consumers",
);
const OLDEST: Family = gauge(
    "tidegate_queue_oldest_ready_seconds",
    "For how long the job that is consumed next has been ready; absent if nothing is ready",
);
const WAITING: Family = gauge(
    "tidegate_queue_waiting_consumers",
    "Consumers of this process that wait for jobs of the queue",
);

type OfServer = (Family, fn(&ServerFigures) -> u64);

const SERVER: [OfServer; 6] = [
    (
        gauge(
            "infra_lmstfy_redis_max_mem_bytes",
            "Memory that Redis may use, 0 = no limit",
        ),
        |server| server.max_mem_bytes,
    ),
    (
        gauge(
            "infra_lmstfy_redis_used_mem_bytes",
            "Memory that Redis uses",
        ),
        |server| server.used_mem_bytes,
    ),
    (
        gauge(
            "infra_lmstfy_redis_connections",
            "Connections to Redis, of whomever",
        ),
        |server| server.connections,
    ),
    (
        gauge(
            "infra_lmstfy_redis_blocking_connections",
            "Connections to Redis in a blocking command; none of them is ours",
        ),
        |server| server.blocking_connections,
    ),
    (
        gauge(
            "infra_lmstfy_redis_total_keys",
            "Keys of the database; many jobs share one",
        ),
        |server| server.total_keys,
    ),
    (
        gauge(
            "infra_lmstfy_redis_total_ttl_keys",
            "Keys of the database with a time to live; jobs have none",
        ),
        |server| server.total_ttl_keys,
    ),
];

/// The state of a pool.
pub(super) struct State<'a> {
    pool: &'a str,
    collected: Option<Arc<Collected>>,
    queues: Vec<Row>,
    waiting: Vec<(Option<QueueKey>, usize)>,
}

/// A queue, or all those that are not told apart.
struct Row {
    queue: Option<QueueKey>,
    stats: Stats,
    oldest_ready_ms: Option<u64>,
}

impl<'a> State<'a> {
    /// At most `names_max` queues are told apart: those with the most jobs, and those with the most
    /// waiting consumers.
    pub(super) fn new(
        pool: &'a str,
        collected: Option<Arc<Collected>>,
        waiting: Vec<(QueueKey, usize)>,
        names_max: usize,
    ) -> Self {
        let listed = collected.iter().flat_map(|collected| &collected.queues);
        Self {
            pool,
            queues: rows(listed.cloned().collect(), names_max),
            waiting: waiting_rows(waiting, names_max),
            collected,
        }
    }
}

fn rows(mut queues: Vec<ListedQueue>, names_max: usize) -> Vec<Row> {
    let jobs = |stats: &Stats| stats.delayed + stats.ready + stats.leased + stats.dead;
    queues.sort_by(|one, other| {
        let key = |listed: &ListedQueue| Reverse(jobs(&listed.stats));
        (key(one), &one.queue).cmp(&(key(other), &other.queue))
    });
    let others = queues.split_off(names_max.min(queues.len()));
    let mut rows: Vec<Row> = queues
        .into_iter()
        .map(|listed| Row {
            queue: Some(listed.queue),
            stats: listed.stats,
            oldest_ready_ms: listed.oldest_ready_ms,
        })
        .collect();
    let together = others.into_iter().map(|listed| Row {
        queue: None,
        stats: listed.stats,
        oldest_ready_ms: listed.oldest_ready_ms,
    });
    rows.extend(together.reduce(|one, other| Row {
        queue: None,
        stats: sum(one.stats, other.stats),
        oldest_ready_ms: one.oldest_ready_ms.max(other.oldest_ready_ms),
    }));
    rows
}

fn sum(one: Stats, other: Stats) -> Stats {
    Stats {
        delayed: one.delayed + other.delayed,
        ready: one.ready + other.ready,
        leased: one.leased + other.leased,
        dead: one.dead + other.dead,
    }
}

fn waiting_rows(
    mut waiting: Vec<(QueueKey, usize)>,
    names_max: usize,
) -> Vec<(Option<QueueKey>, usize)> {
    waiting.sort_by(|(one, of_one), (other, of_other)| {
        (Reverse(of_one), one).cmp(&(Reverse(of_other), other))
    });
    let others = waiting.split_off(names_max.min(waiting.len()));
    let together = others.iter().map(|(_, consumers)| consumers).sum();
    let known = waiting
        .into_iter()
        .map(|(queue, count)| (Some(queue), count));
    let rest = (!others.is_empty()).then_some((None, together));
    known.chain(rest).collect()
}

/// Writes the state of all pools.
pub(super) fn write(page: &mut Page, pools: &[State<'_>]) {
    of_pools(page, &COLLECTED, pools, |state| {
        let is_whole = |known: &Arc<Collected>| known.missing_buckets == 0;
        Some(u8::from(state.collected.as_ref().is_some_and(is_whole)))
    });
    of_pools(page, &MISSING, pools, |state| {
        state.collected.as_ref().map(|known| known.missing_buckets)
    });
    of_pools(page, &QUEUES, pools, |state| {
        state.collected.as_ref().map(|known| known.queues.len())
    });
    of_pools(page, &TIMERS, pools, |state| {
        let queues = state.collected.as_ref().map(|known| known.queues.iter())?;
        Some(
            queues
                .map(|one| one.stats.delayed + one.stats.leased)
                .sum::<u64>(),
        )
    });
    for (family, figure) in &SERVER {
        of_pools(page, family, pools, |state| {
            let server = state.collected.as_ref()?.server.as_ref();
            server.map(figure)
        });
    }
    of_queues(page, &READY, pools, |row| Some(row.stats.ready));
    of_queues(page, &DEAD, pools, |row| Some(row.stats.dead));
    of_queues(page, &DELAYED, pools, |row| Some(row.stats.delayed));
    of_queues(page, &LEASED, pools, |row| Some(row.stats.leased));
    of_queues(page, &OLDEST, pools, |row| {
        row.oldest_ready_ms.map(|ms| ms as f64 / 1000.0)
    });
    let mut waiting = page.family(&WAITING);
    for state in pools {
        for (queue, consumers) in &state.waiting {
            waiting.add(&queue_labels(state.pool, queue.as_ref()), consumers);
        }
    }
}

fn of_pools<T: Display>(
    page: &mut Page,
    family: &Family,
    pools: &[State<'_>],
    figure: impl Fn(&State<'_>) -> Option<T>,
) {
    let mut samples = page.family(family);
    for state in pools {
        if let Some(value) = figure(state) {
            samples.add(&[("pool", state.pool)], value);
        }
    }
}

fn of_queues<T: Display>(
    page: &mut Page,
    family: &Family,
    pools: &[State<'_>],
    figure: impl Fn(&Row) -> Option<T>,
) {
    let mut samples = page.family(family);
    for state in pools {
        for row in &state.queues {
            if let Some(value) = figure(row) {
                samples.add(&queue_labels(state.pool, row.queue.as_ref()), value);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(name: &str) -> QueueKey {
        QueueKey::try_from(name).unwrap()
    }

    fn listed(name: &str, ready: u64, oldest_ready_ms: Option<u64>) -> ListedQueue {
        let stats = Stats {
            ready,
            delayed: 1,
            ..Stats::default()
        };
        ListedQueue {
            queue: key(name),
            stats,
            oldest_ready_ms,
        }
    }

    #[test]
    fn the_fullest_queues_are_told_apart_and_the_others_together() {
        let collected = Collected {
            queues: vec![
                listed("n/small", 1, Some(700)),
                listed("n/big", 9, Some(100)),
                listed("n/empty", 0, None),
                listed("n/middle", 5, Some(1500)),
            ],
            missing_buckets: 3,
            server: None,
        };
        let waiting = vec![(key("n/a"), 1), (key("n/b"), 3), (key("n/c"), 1)];
        let state = State::new("p", Some(Arc::new(collected)), waiting, 2);
        let mut page = Page::default();
        write(&mut page, &[state]);
        let text = page.into_text();
        let of = |namespace: &str, queue: &str| {
            format!(r#"{{pool="p",namespace="{namespace}",queue="{queue}"}}"#)
        };
        for expected in [
            format!("redis_queue_sizes{} 9", of("n", "big")),
            format!("redis_queue_sizes{} 5", of("n", "middle")),
            format!("redis_queue_sizes{} 1", of("_other", "_other")),
            format!("queue_delayed_jobs{} 2", of("_other", "_other")),
            format!("oldest_ready_seconds{} 0.1", of("n", "big")),
            format!("oldest_ready_seconds{} 0.7", of("_other", "_other")),
            format!("waiting_consumers{} 3", of("n", "b")),
            format!("waiting_consumers{} 1", of("_other", "_other")),
            "timer_sizes{pool=\"p\"} 4".to_owned(),
            "tidegate_queues{pool=\"p\"} 4".to_owned(),
            "tidegate_collection_up{pool=\"p\"} 0".to_owned(),
            "tidegate_collection_missing_buckets{pool=\"p\"} 3".to_owned(),
        ] {
            assert!(text.contains(&expected), "{expected} is not in\n{text}");
        }
    }

    #[test]
    fn what_could_not_be_read_is_not_told() {
        let mut page = Page::default();
        write(&mut page, &[State::new("p", None, vec![], 2)]);
        let text = page.into_text();
        let samples: Vec<&str> = text.lines().filter(|line| !line.starts_with('#')).collect();
        assert_eq!(samples, ["tidegate_collection_up{pool=\"p\"} 0"]);
    }
}
