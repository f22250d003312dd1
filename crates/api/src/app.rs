//! What every request can reach.

use std::collections::BTreeMap;
use std::sync::Arc;

use tidegate_store::Store;

use crate::body::Reading;
use crate::config::{Config, DEFAULT_POOL, JobDefaults};
use crate::limits::LimitDesk;
use crate::tokens::TokenDesk;
use crate::waiters::Waiters;

/// The longest body of a job, in bytes.
pub(crate) const JOB_BYTES_MAX: usize = 1024 * 1024;

/// The state of the daemon.
#[derive(Debug)]
pub(crate) struct App {
    pools: BTreeMap<Arc<str>, Arc<Pool>>,
    /// Who may do what.
    pub(crate) tokens: TokenDesk,
    /// How often.
    pub(crate) limits: LimitDesk,
    /// What applies where a request does not say.
    pub(crate) job_defaults: JobDefaults,
    /// How the body of one job is read; also how much of a body is put up with that means nothing.
    pub(crate) job_body: Reading,
    /// How the body of a bulk publish is read.
    pub(crate) bulk_body: Reading,
}

/// One Redis deployment and those who wait for its jobs.
#[derive(Debug)]
pub(crate) struct Pool {
    /// Its name in the configuration and in tokens.
    pub(crate) name: Arc<str>,
    /// Its jobs.
    pub(crate) store: Store,
    /// Its consumers.
    pub(crate) waiters: Waiters,
}

impl App {
    /// The state for these stores, by pool. `tokens` is the store of the default pool, which also keeps
    /// the limits.
    pub(crate) fn new(config: &Config, stores: BTreeMap<String, Store>, tokens: &Store) -> Self {
        let pool = |(name, store): (String, Store)| {
            let name: Arc<str> = name.into();
            let poll_interval = config.waiters.poll_interval;
            let waiters = Waiters::new(Arc::clone(&name), store.clone(), poll_interval);
            let pool = Pool {
                name: Arc::clone(&name),
                store,
                waiters,
            };
            (name, Arc::new(pool))
        };
        let reading = |bytes_max| Reading {
            bytes_max,
            timeout: config.bodies.timeout,
        };
        Self {
            pools: stores.into_iter().map(pool).collect(),
            tokens: TokenDesk::new(tokens.tokens()),
            limits: LimitDesk::new(tokens.limits()),
            job_defaults: config.job,
            job_body: reading(JOB_BYTES_MAX),
            bulk_body: reading(config.bodies.bulk_bytes_max),
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
