//! The metrics of an engine that are read for each scrape.

use std::sync::Arc;

use futures_util::future::join_all;
use prometheus::proto::MetricFamily;

use crate::engine::Engine;
use crate::metrics::gauges;

/// Reads the gauges of queues and servers. Takes a few seconds at most, also while Redis does not answer.
pub async fn gauges(engine: &Engine) -> Vec<MetricFamily> {
    let collected = join_all(engine.pools().map(|pool| pool.collector.collect())).await;
    let waiting = engine.waiters.by_source();
    let states = engine.pools().zip(collected).map(|(pool, collected)| {
        let waiting = waiting
            .iter()
            .filter(|(source, _)| source.pool == pool.name);
        let waiting = waiting.map(|(source, consumers)| (source.queue.clone(), *consumers));
        let name = Arc::clone(&pool.name);
        gauges::PoolGauges::new(name, collected, waiting.collect(), engine.queues_max)
    });
    let states: Vec<gauges::PoolGauges> = states.collect();
    gauges::families(&states)
}
