//! Overviews of a whole pool, for people who look at it.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use futures_util::future::join_all;
use tidegate_core::{JobsByState, Namespace, QueueKey};
use tidegate_store::{ColdStatus, ListedQueue, QueueSizes, ServerFigures, ServerLeaders};

use crate::error::EngineError;
use crate::metrics::JobTraffic;
use crate::pool::Pool;

/// Queues of a pool, with the queues of the pool that it moves to.
#[derive(Debug, Clone, Default)]
pub struct PoolOverview {
    /// The queues by name, with sums over both pools.
    pub queues: BTreeMap<QueueKey, QueueFigures>,
    /// Time for which the earliest timer is overdue, in ms.
    pub overdue_ms: u64,
    /// Buckets whose queues could not be read.
    pub missing_buckets: usize,
}

/// How many jobs a queue has.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct QueueFigures {
    pub stats: JobsByState,
    /// Age of the oldest ready job, in ms since it became ready; `None` if no job is ready, or if it is not known.
    pub oldest_ready_ms: Option<u64>,
}

impl PoolOverview {
    /// All queues together.
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

/// The sizes of all queues of a pool and of the pool that it moves to.
#[derive(Debug, Clone)]
pub struct PoolSizes(Vec<Arc<QueueSizes>>);

impl PoolSizes {
    /// The figures of the pool and of these queues. It costs little besides a look at each name: there may be 100,000.
    pub fn overview_of(&self, wanted: impl Fn(&QueueKey) -> bool) -> PoolOverview {
        let mut overview = PoolOverview::default();
        for sizes in &self.0 {
            for ListedQueue {
                queue,
                stats,
                oldest_ready_ms,
            } in sizes.queues.iter().filter(|it| wanted(&it.queue))
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
            overview.overdue_ms = overview.overdue_ms.max(sizes.overdue_ms);
            overview.missing_buckets += sizes.missing_buckets;
        }
        overview
    }

    /// The namespaces that have queues.
    pub fn namespaces(&self) -> BTreeSet<Namespace> {
        let queues = self.0.iter().flat_map(|it| &it.queues);
        let known: BTreeSet<&Namespace> = queues.map(|it| &it.queue.namespace).collect();
        known.into_iter().cloned().collect()
    }
}

impl Pool {
    /// The sizes of all queues, read from Redis a few seconds ago at most if there are fewer than 50,000; `None` if
    /// Redis gave no answer.
    pub async fn sizes(&self) -> Option<PoolSizes> {
        let all = join_all(self.with_target().map(|pool| pool.reads.sizes())).await;
        Some(PoolSizes(all.into_iter().collect::<Option<_>>()?))
    }

    /// The figures of the servers that answer, a sum for each deployment.
    pub async fn server_figures(&self) -> Vec<ServerFigures> {
        let all = join_all(self.with_target().map(|pool| pool.reads.servers())).await;
        all.into_iter().flatten().collect()
    }

    /// How many jobs went through this process since it started.
    pub fn job_traffic(&self) -> JobTraffic {
        self.metrics.traffic()
    }

    /// The same of one queue; `None` if it has no metrics of its own, or had no job here.
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

    /// The state of the cold tier of its deployment; `None` if there is none.
    pub async fn cold_status(&self) -> Option<ColdStatus> {
        self.store.cold_status().await
    }
}
