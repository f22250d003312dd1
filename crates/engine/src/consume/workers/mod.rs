//! Which workers ask for jobs, and which jobs they hold, for people who look for the worker of a job.
//!
//! ```text
//!  reserve with a name  ─► KnownWorkers ──every 2 s, changes──────► tg:workers:<namespace>     an entry for each worker
//!  ack, fail, release,  ─►   │    ▲                                    │                        and process
//!  touch                     │    └── the record of a lease whose      └──► GET …/workers: a page, checked with the records
//!                            └──────── end has passed                  └──► explain: who holds a job
//! ```
//!
//! Workers without a name cost nothing. The stored entry is a hint: a lease may have ended at another process, so a
//! list compares each with the record of its job.

mod known;
mod list;
mod stored;

use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tidegate_core::{Namespace, QueueKey};
use tidegate_store::LeasedJob;
use tokio::time::{MissedTickBehavior, interval};

pub use self::known::LEASES_STORED_MAX;
pub use self::list::{JobHolder, ListedLease, ListedWorker, WorkerPage};

use self::known::{KnownNamespace, Registry};
use self::stored::KEPT;
use crate::consume::waiters::Delivery;
use crate::metrics::storage_failure::record_store_error;
use crate::pool::Pool;

/// How often changes are stored.
const INTERVAL: Duration = Duration::from_secs(2);

/// The workers that this process knows.
#[derive(Debug)]
pub struct KnownWorkers {
    registry: Mutex<Registry>,
    /// The name of this process in Redis.
    process: String,
}

impl Default for KnownWorkers {
    fn default() -> Self {
        Self {
            registry: Mutex::default(),
            process: format!("{:016x}", rand::random::<u64>()),
        }
    }
}

/// A request of a worker for jobs. Dropped when the request ends.
#[derive(Debug)]
pub struct ActiveWorker {
    known: Arc<KnownWorkers>,
    of: KnownNamespace,
    name: Arc<str>,
}

impl KnownWorkers {
    /// A worker asks for jobs of these queues.
    pub fn enter(
        self: &Arc<Self>,
        pool: &Arc<str>,
        namespace: &Namespace,
        name: &str,
        queues: &[QueueKey],
    ) -> ActiveWorker {
        let of = KnownNamespace {
            pool: Arc::clone(pool),
            namespace: namespace.clone(),
        };
        let name: Arc<str> = name.into();
        self.registry.lock().enter(&of, &name, queues);
        ActiveWorker {
            known: Arc::clone(self),
            of,
            name,
        }
    }

    /// These leases have ended, if a worker with a name had them.
    pub fn ended(&self, leases: impl IntoIterator<Item = LeasedJob>) {
        let mut registry = self.registry.lock();
        if registry.has_leases() {
            leases.into_iter().for_each(|lease| registry.ended(lease));
        }
    }

    /// These leases end at this time, in ms since 1970 on the clock of Redis.
    pub fn extended(&self, leases: impl IntoIterator<Item = (LeasedJob, u64)>) {
        let mut registry = self.registry.lock();
        if registry.has_leases() {
            let leases = leases.into_iter();
            leases.for_each(|(lease, until_ms)| registry.extended(lease, until_ms));
        }
    }

    /// Stores what has changed, until the future is dropped. `pool_of` is the pool with a name.
    pub(crate) async fn follow(&self, pool_of: impl Fn(&str) -> Option<Arc<Pool>>) {
        let mut ticks = interval(INTERVAL);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            ticks.tick().await;
            self.check(&pool_of).await;
            self.store(&pool_of).await;
        }
    }

    /// Compares leases that may have ended elsewhere with the records of their jobs.
    async fn check(&self, pool_of: impl Fn(&str) -> Option<Arc<Pool>>) {
        let unchecked = self.registry.lock().unchecked();
        for (pool, leases) in unchecked {
            let Some(pool) = pool_of(&pool) else {
                continue;
            };
            match pool.leases_until(&leases).await {
                Ok(until) => {
                    let mut registry = self.registry.lock();
                    for (lease, until_ms) in leases.into_iter().zip(until) {
                        registry.checked(lease, until_ms);
                    }
                }
                Err(error) => record_store_error(&error),
            }
        }
    }

    async fn store(&self, pool_of: impl Fn(&str) -> Option<Arc<Pool>>) {
        let changed = self.registry.lock().changed();
        for (of, mut names) in changed {
            let Some(pool) = pool_of(&of.pool) else {
                continue;
            };
            loop {
                let part = self.registry.lock().take_part(&of, &mut names);
                if part.is_empty() {
                    break;
                }
                let (namespace, store) = (&of.namespace, pool.store());
                let storing = store.workers_set(namespace, &self.process, &part, KEPT);
                if let Err(error) = storing.await {
                    record_store_error(&error);
                    let unstored = part.into_iter().map(|(name, _)| name);
                    self.registry.lock().store_again(&of, unstored);
                    break;
                }
            }
        }
    }
}

impl ActiveWorker {
    /// The worker gets these jobs.
    pub fn holds(&self, delivery: &Delivery) {
        let mut registry = self.known.registry.lock();
        registry.holds(&self.of, &self.name, delivery.jobs());
    }
}

impl Drop for ActiveWorker {
    fn drop(&mut self) {
        self.known.registry.lock().leave(&self.of, &self.name);
    }
}
