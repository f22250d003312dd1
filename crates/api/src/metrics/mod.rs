//! The metrics of this daemon. `docs/metrics.md` lists them.
//!
//! | file | has |
//! |---|---|
//! | `pool` | what is counted of jobs, by pool and by queue |
//! | `requests` | what is counted of requests, by namespace and route |
//! | `collector`, `gauges` | the state of queues and servers, read from Redis when somebody asks |
//! | `ledger` | the bound on how many names are told apart |
//!
//! What has a namespace among its labels is kept here and written by hand, as it comes and goes with
//! its names; the rest is recorded through the macros. A token never is a label, and a namespace only
//! if a token opened it: strangers cannot make series.

mod collector;
mod gauges;
mod ledger;
mod pool;
mod requests;

use std::sync::LazyLock;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use futures_util::future::join_all;
use metrics::{counter, describe_counter, describe_gauge};
use tidegate_core::QueueKey;
use tidegate_service::metrics::Page;
use tidegate_store::{StoreError, describe_metrics};

pub(crate) use collector::{Collected, Collector};
pub(crate) use pool::PoolFigures;
pub(crate) use requests::RequestFigures;

use crate::app::App;
use crate::{backlog, durable, last_known};

const STORAGE_FAILURES: &str = "tidegate_storage_failures_total";
/// Consumers that wait for a job.
pub(crate) const WAITING: &str = "tidegate_waiting_seats";
/// Calls that were made for waiting consumers.
pub(crate) const ROUNDS: &str = "tidegate_reserve_rounds_total";

/// The namespace, and the queue, of all those that are not told apart. No queue of a publish has such
/// a name.
const OTHER: &str = "_other";

/// The histograms of this daemon and the upper bounds of their buckets.
pub(crate) fn histograms() -> Vec<(&'static str, &'static [f64])> {
    let of_store = tidegate_store::HISTOGRAMS.into_iter();
    of_store.chain([durable::HISTOGRAM]).collect()
}

/// Tells what the metrics mean.
pub(crate) fn describe() {
    describe_metrics();
    durable::describe();
    backlog::describe();
    last_known::describe();
    pool::describe();
    collector::describe();
    describe_counter!(STORAGE_FAILURES, "Calls to storage that failed");
    counter!(STORAGE_FAILURES).increment(0);
    describe_gauge!(WAITING, "Consumers that wait for a job");
    describe_counter!(ROUNDS, "Calls to storage on behalf of waiting consumers");
}

/// The labels of a queue, or of those that are not told apart.
fn queue_labels<'a>(pool: &'a str, queue: Option<&'a QueueKey>) -> [(&'static str, &'a str); 3] {
    let (namespace, queue) = match queue {
        Some(key) => (key.namespace.as_str(), key.queue.as_str()),
        None => (OTHER, OTHER),
    };
    [("pool", pool), ("namespace", namespace), ("queue", queue)]
}

/// What is not recorded through the macros. It takes a few seconds at most, whatever Redis does.
pub(crate) async fn page(app: &App) -> Page {
    let collected = join_all(app.pools().map(|pool| pool.collector.collect())).await;
    let waiting = app.waiters.by_source();
    let states = app.pools().zip(collected).map(|(pool, collected)| {
        let waiting = waiting
            .iter()
            .filter(|(source, _)| source.pool == pool.name);
        let waiting = waiting.map(|(source, consumers)| (source.queue.clone(), *consumers));
        gauges::State::new(&pool.name, collected, waiting.collect(), app.names_max)
    });
    let states: Vec<gauges::State<'_>> = states.collect();
    let counted: Vec<pool::Snapshot<'_>> = app
        .pools()
        .map(|pool| pool::Snapshot::new(&pool.name, &pool.figures))
        .collect();
    let nowhere = requests::Told {
        pool: "",
        namespace: "",
        figures: &app.nowhere,
    };
    let requests = counted.iter().flat_map(pool::Snapshot::requests);
    let requests: Vec<requests::Told<'_>> = requests.chain([nowhere]).collect();
    let mut page = Page::default();
    requests::write(&mut page, &requests);
    pool::write(&mut page, &counted);
    gauges::write(&mut page, &states);
    page
}

/// A call to storage that failed. They come by the thousand when Redis is away, so there is at most
/// one warning a second; the others are for those who debug.
pub(crate) fn storage_failed(error: &StoreError) {
    static BEGAN_AT: LazyLock<Instant> = LazyLock::new(Instant::now);
    static LAST_WARNING_S: AtomicU64 = AtomicU64::new(0);
    counter!(STORAGE_FAILURES).increment(1);
    let now_s = BEGAN_AT.elapsed().as_secs() + 1;
    if LAST_WARNING_S.swap(now_s, Ordering::Relaxed) == now_s {
        tracing::debug!(%error, "storage failed");
    } else {
        tracing::warn!(%error, "storage failed");
    }
}
