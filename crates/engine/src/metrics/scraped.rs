//! The metrics of servers, of waiting consumers and of queues. They are made for each scrape: a source or server that has
//! gone is not shown.

use std::ops::Add;
use std::sync::Arc;

use futures_util::future::join_all;
use prometheus::proto::MetricFamily;
use tidegate_daemon::metrics::{
    GaugeFamily, OF_QUEUE, QueueRows, gauges_of_scrape, labeled_rows, queue_rows,
};
use tidegate_store::ServerFigures;
use tokio::task::spawn_blocking;

use crate::consume::waiters::Source;
use crate::engine::Engine;
use crate::pool::Pool;

use super::namespaces::families_of_namespaces;
use super::pool::families_of_queues;

/// The families with one value for each pool.
const OF_POOLS: [GaugeFamily<ServerFigures>; 9] = [
    (
        "infra_lmstfy_redis_max_mem_bytes",
        "Memory limit of Redis (maxmemory), in bytes; 0 = no limit. Of a cluster, the sum over its primaries.",
        |servers| Some(servers.max_mem_bytes as f64),
    ),
    (
        "infra_lmstfy_redis_used_mem_bytes",
        "Memory used by Redis, in bytes. Of a cluster, the sum over its primaries.",
        |servers| Some(servers.used_mem_bytes as f64),
    ),
    (
        "infra_lmstfy_redis_connections",
        "Number of client connections to the Redis server.",
        |servers| Some(servers.connections as f64),
    ),
    (
        "infra_lmstfy_redis_blocking_connections",
        "Number of client connections to the Redis server in a blocking command. Tidegate uses none.",
        |servers| Some(servers.blocking_connections as f64),
    ),
    (
        "infra_lmstfy_redis_total_keys",
        "Number of keys in the Redis database. Many jobs share one key.",
        |servers| Some(servers.total_keys as f64),
    ),
    (
        "infra_lmstfy_redis_total_ttl_keys",
        "Number of keys with a time to live in the Redis database. Jobs have none.",
        |servers| Some(servers.total_ttl_keys as f64),
    ),
    (
        "tidegate_redis_without_append_only_file",
        "Number of Redis servers without an append-only file (appendonly). If one restarts, it loses jobs.",
        |servers| Some(servers.without_append_only_file as f64),
    ),
    (
        "tidegate_redis_evicting",
        "Number of Redis servers that may evict jobs: maxmemory-policy is not noeviction.",
        |servers| Some(servers.evicting as f64),
    ),
    (
        "tidegate_redis_other_layout",
        "1 if the stamp of the data in Redis is missing or another one, as Redis was emptied or replaced, else 0.",
        |servers| Some(f64::from(u8::from(servers.has_other_stamp?))),
    ),
];

const WAITING: GaugeFamily<usize> = (
    "tidegate_queue_waiting_consumers",
    "Number of consumers in this process that wait for jobs of the queue.",
    |consumers| Some(*consumers as f64),
);

struct PoolGauges {
    pool: Arc<Pool>,
    servers: Option<ServerFigures>,
    waiting: QueueRows<usize>,
}

impl PoolGauges {
    /// At most `names_max` queues have series of their own: the queues with the most waiting consumers.
    fn new(
        pool: Arc<Pool>,
        servers: Option<ServerFigures>,
        waiting: &[(Source, usize)],
        names_max: usize,
    ) -> Self {
        let here = waiting
            .iter()
            .filter(|(source, _)| source.pool == pool.name);
        let here = here.map(|(source, consumers)| (source.queue.clone(), *consumers));
        Self {
            waiting: queue_rows(
                here.collect(),
                names_max,
                |consumers| *consumers,
                usize::add,
            ),
            pool,
            servers,
        }
    }
}

/// Reads the metrics of servers, waiting consumers and queues. Takes a few seconds at most, also while Redis does not
/// answer.
pub async fn scraped(engine: &Engine) -> Vec<MetricFamily> {
    let servers = join_all(engine.pools().map(|pool| pool.reads.servers())).await;
    let pools: Vec<_> = engine.pools().cloned().zip(servers).collect();
    let metrics = engine.pools().map(|pool| (&*pool.name, &pool.metrics));
    let of_namespaces = families_of_namespaces(metrics, &engine.namespaces, engine.queues_max);
    let (waiting, queues_max) = (engine.waiters.by_source(), engine.queues_max);
    // All queues are sorted, and there may be tens of thousands: requests must not wait for that.
    let making = spawn_blocking(move || {
        let pools = pools.into_iter();
        let pools =
            pools.map(|(pool, servers)| PoolGauges::new(pool, servers, &waiting, queues_max));
        families(&pools.collect::<Vec<_>>())
    });
    // It does not panic.
    let mut families = making.await.unwrap_or_default();
    families.extend(of_namespaces);
    families
}

fn families(pools: &[PoolGauges]) -> Vec<MetricFamily> {
    let of_pools = OF_POOLS.iter().map(|family| {
        let samples = pools.iter();
        let samples = samples.filter_map(|it| Some(([&*it.pool.name], it.servers.as_ref()?)));
        gauges_of_scrape(family, ["pool"], samples)
    });
    let waiting = pools.iter();
    let waiting = waiting.flat_map(|it| labeled_rows(&it.pool.name, &it.waiting));
    let waiting = gauges_of_scrape(&WAITING, OF_QUEUE, waiting);
    let metrics = pools.iter().map(|it| (&*it.pool.name, &it.pool.metrics));
    let of_queues = families_of_queues(metrics);
    of_pools.chain([waiting]).chain(of_queues).collect()
}
