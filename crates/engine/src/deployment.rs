//! A Redis deployment, as the verbs of a pool and the waiting consumers use it.

use std::sync::Arc;

use tidegate_store::Store;

use crate::job_ends::JobEnds;
use crate::lanes::LaneTable;
use crate::metrics::PoolMetrics;
use crate::policies::PolicyTable;
use crate::publisher::LanePublisher;

/// A Redis deployment, its tables of lanes and policies, and its metrics. Cheap to clone.
#[derive(Debug, Clone)]
pub(crate) struct RedisDeployment {
    /// The store of its jobs.
    pub(crate) store: Store,
    /// The numbers of lanes of its queues.
    pub(crate) lanes: Arc<LaneTable>,
    /// The policies of its queues.
    pub(crate) policies: Arc<PolicyTable>,
    /// Publishes to these lanes.
    pub(crate) publisher: Arc<LanePublisher>,
    /// The clients that wait for the ends of its jobs.
    pub(crate) ends: Arc<JobEnds>,
    /// Its metrics.
    pub(crate) figures: Arc<PoolMetrics>,
}

impl RedisDeployment {
    /// Creates the deployment of the pool of this name. At most `queues_max` of its queues have metrics of their own.
    pub(crate) fn new(pool: &str, store: Store, queues_max: usize) -> Self {
        let lanes = Arc::new(LaneTable::new(store.clone()));
        Self {
            publisher: Arc::new(LanePublisher::new(store.clone(), Arc::clone(&lanes))),
            lanes,
            ends: Arc::default(),
            policies: Arc::new(PolicyTable::new(&store)),
            figures: Arc::new(PoolMetrics::new(pool, queues_max)),
            store,
        }
    }
}
