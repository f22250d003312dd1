//! The metrics of an engine that are read for each scrape.

use std::sync::Arc;

use futures_util::future::join_all;
use prometheus::proto::MetricFamily;
use tokio::task::spawn_blocking;

use crate::consume::waiters::Source;
use crate::engine::Engine;
use crate::metrics::{Collected, gauges};

/// Reads the gauges of queues and servers. Takes a few seconds at most, also while Redis does not answer.
pub async fn gauges(engine: &Engine) -> Vec<MetricFamily> {
    let collected = join_all(engine.pools().map(|pool| pool.collector.collect())).await;
    let names = engine.pools().map(|pool| Arc::clone(&pool.name));
    let pools: Vec<_> = names.zip(collected).collect();
    let (waiting, queues_max) = (engine.waiters.by_source(), engine.queues_max);
    // All queues are sorted, and there may be a hundred thousand: requests must not wait for that.
    let making = spawn_blocking(move || families(pools, &waiting, queues_max));
    // It does not panic.
    making.await.unwrap_or_default()
}

fn families(
    pools: Vec<(Arc<str>, Option<Arc<Collected>>)>,
    waiting: &[(Source, usize)],
    queues_max: usize,
) -> Vec<MetricFamily> {
    let states = pools.into_iter().map(|(name, collected)| {
        let waiting = waiting.iter().filter(|(source, _)| source.pool == name);
        let waiting = waiting.map(|(source, consumers)| (source.queue.clone(), *consumers));
        let waiting = waiting.collect();
        gauges::PoolGauges::new(name, collected, waiting, queues_max)
    });
    let states: Vec<gauges::PoolGauges> = states.collect();
    gauges::families(&states)
}
