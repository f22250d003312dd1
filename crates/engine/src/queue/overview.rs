//! Overviews of a whole pool, for people who look at it.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use tidegate_core::{JobsByState, Namespace, QueueKey};
use tidegate_store::{ListedQueue, ServerFigures, ServerLeaders};

use crate::error::EngineError;
use crate::metrics::{Collected, JobTraffic};
use crate::pool::Pool;

/// Queues of a pool, with the queues of the pool that it moves to, and figures of the pool itself.
#[derive(Debug, Clone, Default)]
pub struct PoolOverview {
    /// The queues by name, with sums over both pools.
    pub queues: BTreeMap<QueueKey, QueueFigures>,
    /// Time for which the earliest timer is overdue, in ms.
    pub overdue_ms: u64,
    /// Buckets whose queues could not be read.
    pub missing_buckets: usize,
    /// The figures of the servers that answered, a sum for each deployment.
    pub servers: Vec<ServerFigures>,
}

/// How many jobs a queue has.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct QueueFigures {
    /// By state.
    pub stats: JobsByState,
    /// Age of the oldest ready job, in ms since it became ready; `None` if no job is ready, or if it is not known.
    pub oldest_ready_ms: Option<u64>,
}

impl PoolOverview {
    /// All queues together.
    #[must_use]
    pub fn total(&self) -> QueueFigures {
        let mut total = QueueFigures::default();
        self.queues.values().for_each(|queue| total.add(*queue));
        total
    }
}

impl QueueFigures {
    fn add(&mut self, other: Self) {
        self.stats += other.stats;
        self.oldest_ready_ms = self.oldest_ready_ms.max(other.oldest_ready_ms);
    }
}

/// The collected sizes of a pool and of the pool that it moves to.
#[derive(Debug, Clone)]
pub struct PoolSizes(Vec<Arc<Collected>>);

impl PoolSizes {
    /// The figures of the pool and of these queues. It costs little besides a look at each name: there may be 100,000.
    #[must_use]
    pub fn overview_of(&self, wanted: impl Fn(&QueueKey) -> bool) -> PoolOverview {
        let mut overview = PoolOverview::default();
        for collected in &self.0 {
            let listed = &collected.listed;
            for ListedQueue {
                queue,
                stats,
                oldest_ready_ms,
            } in listed.queues.iter().filter(|it| wanted(&it.queue))
            {
                let figures = QueueFigures {
                    stats: *stats,
                    oldest_ready_ms: *oldest_ready_ms,
                };
                overview
                    .queues
                    .entry(queue.clone())
                    .or_default()
                    .add(figures);
            }
            overview.overdue_ms = overview.overdue_ms.max(listed.overdue_ms);
            overview.missing_buckets += listed.missing_buckets;
            overview.servers.extend(collected.server().copied());
        }
        overview
    }

    /// The namespaces that have queues.
    #[must_use]
    pub fn namespaces(&self) -> BTreeSet<Namespace> {
        let queues = self.0.iter().flat_map(|it| &it.listed.queues);
        let known: BTreeSet<&Namespace> = queues.map(|it| &it.queue.namespace).collect();
        known.into_iter().cloned().collect()
    }
}

impl Pool {
    /// The sizes of all queues, as old as the sizes in the metrics; `None` if Redis gave no answer.
    pub async fn sizes(&self) -> Option<PoolSizes> {
        let mut all = Vec::new();
        for pool in self.with_target() {
            all.push(pool.collector.collect().await?);
        }
        Some(PoolSizes(all))
    }

    /// How many jobs went through this process since it started.
    #[must_use]
    pub fn job_traffic(&self) -> JobTraffic {
        self.metrics.traffic()
    }

    /// The same of one queue; `None` if it has no metrics of its own, or had no job here.
    #[must_use]
    pub fn queue_traffic(&self, queue: &QueueKey) -> Option<JobTraffic> {
        self.metrics.traffic_of(queue)
    }

    /// The pumps of its deployment and the buckets that they lead.
    ///
    /// # Errors
    /// Redis gave no answer.
    pub async fn leaders(&self) -> Result<Vec<ServerLeaders>, EngineError> {
        Ok(self.store.leaders().await?)
    }
}
