//! The metrics of limits of namespaces.

use std::sync::atomic::Ordering::Relaxed;

use prometheus::proto::MetricFamily;
use tidegate_core::Namespace;
use tidegate_daemon::metrics::{
    FamilyTexts, GaugeFamily, OTHER, counters_of_scrape, gauges_of_scrape,
};

use super::pool::PoolMetrics;
use crate::namespaces::NamespaceTable;

const REFUSED: FamilyTexts = (
    "tidegate_namespace_refused_total",
    "Number of publishes that a limit of their namespace has refused.",
);

const LIMIT: GaugeFamily<u64> = (
    "tidegate_namespace_limit",
    "Limit in effect of a namespace with a quota.",
    |limit| Some(*limit as f64),
);

impl PoolMetrics {
    /// Counts a publish that a limit of its namespace has refused.
    pub(crate) fn refused_by_limit(&self, namespace: &Namespace, limit: &'static str) {
        let refusals = self.refusals.get(&(namespace.clone(), limit));
        refusals.fetch_add(1, Relaxed);
    }
}

/// The families of these pools, and of the namespaces with a quota: the first `names_max` in their order.
pub(super) fn families_of_namespaces<'a>(
    pools: impl Iterator<Item = (&'a str, &'a PoolMetrics)>,
    namespaces: &NamespaceTable,
    names_max: usize,
) -> [MetricFamily; 2] {
    let refused = pools.flat_map(|(pool, metrics)| {
        let rows = metrics.refusals.rows().into_iter();
        rows.map(move |(key, count)| {
            let (namespace, limit) = match key {
                Some((namespace, limit)) => (namespace.to_string(), limit),
                None => (OTHER.to_owned(), OTHER),
            };
            let labels = [pool.to_owned(), namespace, limit.to_owned()];
            (labels, count.load(Relaxed))
        })
    });
    let refused = refused.filter(|(_, count)| *count > 0);
    let mut limited = namespaces.with_quota();
    limited.sort();
    limited.truncate(names_max);
    let limits: Vec<([String; 2], u64)> = limited
        .iter()
        .flat_map(|namespace| {
            let limits = namespaces.limits(namespace).by_name().into_iter();
            limits.filter_map(|(name, max)| Some(([namespace.to_string(), name.to_owned()], max?)))
        })
        .collect();
    let limits = limits.iter().map(|(labels, max)| (labels.clone(), max));
    [
        counters_of_scrape(REFUSED, ["pool", "namespace", "limit"], refused),
        gauges_of_scrape(&LIMIT, ["namespace", "limit"], limits),
    ]
}
