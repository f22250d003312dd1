//! Which workers ask for jobs, and which jobs they hold, for people who look for the worker of a job.
//!
//! ```text
//!  reserve with a name ─► KnownWorkers ──every 2 s──► tg:workers:<namespace>      one entry for each process
//!  ack, fail, release  ─►                             all entries ─► GET …/workers, checked with the records
//! ```
//!
//! Workers without a name cost nothing. What is stored is a hint: a lease may have ended at another process, so a list
//! compares each with the record of its job.

mod known;
mod list;
mod stored;

use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tidegate_core::{JobId, Namespace, QueueKey};
use tidegate_store::Store;
use tokio::time::{MissedTickBehavior, interval};

pub use self::list::{ListedLease, ListedWorker};

use self::known::{KnownNamespace, Registry};
use self::stored::KEPT;
use crate::storage_failure::record_store_error;
use crate::waiters::Delivery;

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

    /// The leases of these jobs have ended, if a worker with a name had them.
    pub fn ended(&self, jobs: impl IntoIterator<Item = JobId>) {
        let mut registry = self.registry.lock();
        if registry.has_leases() {
            jobs.into_iter().for_each(|job| registry.ended(job));
        }
    }

    /// Stores what has changed, until the future is dropped. `store_of` is the store of a pool.
    pub(crate) async fn follow(&self, store_of: impl Fn(&str) -> Option<Store>) {
        let mut ticks = interval(INTERVAL);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            ticks.tick().await;
            let changed = self.registry.lock().take_changed();
            for (of, value) in changed {
                let Some(store) = store_of(&of.pool) else {
                    continue;
                };
                let setting = store.workers_set(&of.namespace, &self.process, &value, KEPT);
                if let Err(error) = setting.await {
                    record_store_error(&error);
                    self.registry.lock().store_again(&of);
                }
            }
        }
    }
}

impl ActiveWorker {
    /// The worker gets these jobs.
    pub fn holds(&self, delivery: &Delivery) {
        let mut registry = self.known.registry.lock();
        for reserved in delivery.jobs() {
            registry.holds(&self.of, &self.name, &reserved);
        }
    }
}

impl Drop for ActiveWorker {
    fn drop(&mut self) {
        self.known.registry.lock().leave(&self.of, &self.name);
    }
}
