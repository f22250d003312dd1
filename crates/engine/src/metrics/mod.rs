//! The metrics of jobs and queues. `docs/metrics.md` lists them.
//!
//! | file | contents |
//! |---|---|
//! | `pool` | metrics of jobs, by pool and by queue |
//! | `collector`, `gauges` | sizes of queues and figures of servers, read from Redis on demand |
//! | `ledger` | the bound on the number of names with their own metrics |
//!
//! Series with the label `namespace` come and go with the names: series of jobs are removed with the entry in the
//! ledger, series of sizes are collected for each scrape.

pub(crate) mod collector;
pub(crate) mod exposition;
pub(crate) mod gauges;
pub(crate) mod pool;
mod series_table;
pub(crate) mod storage_failure;

use tidegate_core::{JobId, QueueKey};

pub use collector::Collected;
pub(crate) use collector::Collector;
pub use pool::JobTraffic;
pub(crate) use pool::PoolMetrics;
pub use series_table::SeriesTable;

/// The labels `namespace` and `queue` of all names beyond the limit, and of queues for replies. Publishes reject queue names that begin with `_`.
pub const OTHER: &str = "_other";

/// Whether a queue may have series of its own. One with the id of a job as its name is for the reply to that job: it is used
/// once, and each would take the place of a queue that stays.
fn may_have_series(queue: &QueueKey) -> bool {
    let name = queue.queue.as_str();
    // The wire of lmstfy writes a 1 in front of ids of jobs with attributes.
    let versioned = name.strip_prefix('1').map(JobId::try_from);
    JobId::try_from(name).is_err() && !matches!(versioned, Some(Ok(_)))
}

/// The names of the labels of a queue.
const OF_QUEUE: [&str; 3] = ["pool", "namespace", "queue"];

/// The labels of a queue, or of all queues beyond the limit.
fn queue_labels<'a>(pool: &'a str, queue: Option<&'a QueueKey>) -> [&'a str; 3] {
    let (namespace, queue) = match queue {
        Some(key) => (key.namespace.as_str(), key.queue.as_str()),
        None => (OTHER, OTHER),
    };
    [pool, namespace, queue]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn queues_for_replies_have_no_series() {
        let id = "01M8J7J6E703H000001X142FCG";
        for (name, expected) in [("emails", true), (id, false), (&*format!("1{id}"), false)] {
            let queue = QueueKey::try_from(format!("shop/{name}").as_str()).unwrap();
            assert_eq!(may_have_series(&queue), expected, "{name}");
        }
    }
}
