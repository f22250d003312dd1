//! What every request can reach.

use std::collections::BTreeMap;
use std::num::NonZero;
use std::sync::Arc;
use std::time::Duration;

use arc_swap::ArcSwap;
use tidegate_core::Namespace;
use tidegate_service::{ByteBudget, Readiness};
use tidegate_store::Store;
use tokio::sync::Semaphore;

use crate::body::Reading;
use crate::config::{Config, DEFAULT_POOL, DurabilityConfig, JobDefaults, RequestLimits};
use crate::durable::Aim;
use crate::lanes::LaneTable;
use crate::limits::LimitDesk;
use crate::metrics::{PoolFigures, RequestFigures, storage_failed};
use crate::pool::{Deployment, Pool};
use crate::size::Size;
use crate::tokens::{TokenDesk, TokenForm};
use crate::waiters::{Room, Waiters};

/// The state of the daemon.
#[derive(Debug)]
pub(crate) struct App {
    pools: BTreeMap<Arc<str>, Arc<Pool>>,
    /// Consumers that wait.
    pub(crate) waiters: Waiters,
    /// How many of them there may be.
    pub(crate) room: Room,
    /// How long each may wait.
    pub(crate) wait_max: Duration,
    /// How large requests may be.
    pub(crate) requests: RequestLimits,
    /// Who may do what.
    pub(crate) tokens: TokenDesk,
    /// How often.
    pub(crate) limits: LimitDesk,
    /// What applies where a request does not say.
    job_defaults: ArcSwap<JobDefaults>,
    /// What publishes wait for.
    durability: DurabilityConfig,
    /// Whether requests need no token.
    pub(crate) skip_token_checks: bool,
    /// Whether it can do its work.
    pub(crate) readiness: Readiness,
    /// How the body of one job is read; also how much of a body is put up with that means nothing.
    pub(crate) job_body: Reading,
    /// How the body of a bulk publish is read.
    pub(crate) bulk_body: Reading,
    /// Memory for answers to consumes that clients have not read yet.
    pub(crate) unread: ByteBudget,
    /// A permit for each large body that is being read or written as JSON.
    pub(crate) large_bodies: Semaphore,
    /// What is counted of requests for no pool.
    pub(crate) nowhere: RequestFigures,
    /// How many queues of a pool are told apart in metrics.
    pub(crate) names_max: usize,
}

impl App {
    /// The state for these stores, by pool; `admin_store` keeps tokens and limits.
    pub(crate) fn new(
        config: &Config,
        stores: BTreeMap<String, Store>,
        admin_store: &Store,
        readiness: Readiness,
    ) -> Self {
        let deployment = |(name, store): (String, Store)| {
            let figures = Arc::new(PoolFigures::new(&name, config.metrics.queues_max));
            let lanes = Arc::new(LaneTable::new(store.clone()));
            let deployment = Deployment {
                store,
                lanes,
                figures,
            };
            (name.into(), deployment)
        };
        let deployments = stores.into_iter().map(deployment).collect();
        let form = match config.hash_tokens {
            true => TokenForm::Hashed,
            false => TokenForm::Plain,
        };
        let requests = config.requests.clone();
        let budget = ByteBudget::new(requests.bodies_bytes_max());
        let waiters = &config.waiters;
        let reading = |bytes_max| Reading {
            bytes_max,
            timeout: requests.body_timeout,
            budget: budget.clone(),
        };
        let processors = std::thread::available_parallelism().map_or(1, NonZero::get);
        Self {
            waiters: Waiters::new(&deployments, waiters.poll_interval),
            room: Room::new(waiters.in_process_max, waiters.per_token_max),
            wait_max: waiters.wait_max,
            pools: pools(deployments, config),
            tokens: TokenDesk::new(admin_store.tokens(), form),
            limits: LimitDesk::new(admin_store.limits()),
            job_defaults: ArcSwap::from_pointee(config.job),
            durability: config.durability.clone(),
            skip_token_checks: config.skip_token_checks,
            readiness,
            job_body: reading(requests.job_bytes_max),
            bulk_body: reading(requests.bulk_bytes_max),
            unread: ByteBudget::new(requests.unread_bytes_max),
            large_bodies: Semaphore::new(processors.saturating_sub(1).max(1)),
            requests,
            nowhere: RequestFigures::default(),
            names_max: config.metrics.queues_max,
        }
    }

    /// Reads how many lanes the queues have, so that the first requests find what is in them. Where that
    /// fails it is tried again once a second, as long as the daemon serves.
    pub(crate) async fn read_lanes(&self) {
        for pool in self.pools() {
            if let Err(error) = pool.lanes.read().await {
                storage_failed(&error);
            }
        }
    }

    /// What applies where a request does not say.
    pub(crate) fn job_defaults(&self) -> JobDefaults {
        **self.job_defaults.load()
    }

    /// Has something else apply from now on.
    pub(crate) fn set_job_defaults(&self, defaults: JobDefaults) {
        self.job_defaults.store(Arc::new(defaults));
    }

    /// What publishes to a namespace of a pool wait for.
    pub(crate) fn aim(&self, pool: &Pool, namespace: &Namespace) -> Aim {
        Aim {
            durability: self.durability.of(&pool.name, namespace),
            timeout: self.durability.timeout,
        }
    }

    /// A pool by name; the empty name means the default pool.
    pub(crate) fn pool(&self, name: &str) -> Option<&Arc<Pool>> {
        self.pools
            .get(if name.is_empty() { DEFAULT_POOL } else { name })
    }

    /// All pools, in the order of their names.
    pub(crate) fn pools(&self) -> impl Iterator<Item = &Arc<Pool>> {
        self.pools.values()
    }
}

/// Pools on these deployments. The configuration was checked: a pool moves to another that moves nowhere.
fn pools(
    deployments: BTreeMap<Arc<str>, Deployment>,
    config: &Config,
) -> BTreeMap<Arc<str>, Arc<Pool>> {
    let target = |name: &str| config.pool.get(name)?.migrate_to.as_deref();
    let (moving, staying): (Vec<_>, Vec<_>) = deployments
        .into_iter()
        .partition(|(name, _)| target(name).is_some());
    let backlog_max = Size {
        jobs: config.requests.backlog_jobs_max,
        bytes: config.requests.backlog_bytes_max,
    };
    let mut pools = BTreeMap::new();
    for (name, deployment) in staying.into_iter().chain(moving) {
        let moves_to: Option<Arc<Pool>> = target(&name).and_then(|to| pools.get(to).cloned());
        if let Some(to) = &moves_to {
            tracing::info!(pool = %name, to = %to.name, "new jobs are stored in another pool");
        }
        let pool = Pool::new(
            Arc::clone(&name),
            deployment,
            backlog_max,
            config.metrics.refresh,
            moves_to,
        );
        pools.insert(name, Arc::new(pool));
    }
    pools
}
