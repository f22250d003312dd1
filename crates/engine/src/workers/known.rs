//! What this process knows of workers. It does no I/O.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::time::Duration;

use tidegate_core::{JobId, Namespace, QueueKey};
use tokio::time::Instant;

use super::stored::{KEPT, StoredLease, StoredWorker};
use crate::waiters::ReservedJob;

/// The most workers of a namespace that a process knows; others are left out.
const WORKERS_MAX: usize = 1_000;
/// The most leases of a worker that a process knows; others are left out.
const LEASES_MAX: usize = 100;
/// How long a worker is known after its last request.
const REMEMBERED: Duration = KEPT;

/// A namespace of a pool.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct KnownNamespace {
    pub(super) pool: Arc<str>,
    pub(super) namespace: Namespace,
}

/// All that is known.
#[derive(Debug, Default)]
pub(super) struct Registry {
    namespaces: HashMap<KnownNamespace, NamespaceWorkers>,
    /// Who holds a job.
    holders: HashMap<JobId, (KnownNamespace, Arc<str>)>,
}

#[derive(Debug, Default)]
struct NamespaceWorkers {
    workers: BTreeMap<Arc<str>, KnownWorker>,
    has_changed: bool,
    stored_at: Option<Instant>,
}

#[derive(Debug)]
struct KnownWorker {
    queues: Vec<String>,
    seen_at: Instant,
    /// Requests that have not ended.
    requests: usize,
    leases: BTreeMap<JobId, KnownLease>,
}

#[derive(Debug)]
struct KnownLease {
    stored: StoredLease,
    /// When it is forgotten unless it has ended before: a lease that is extended is longer than that.
    forgotten_at: Instant,
}

impl Registry {
    pub(super) fn enter(&mut self, of: &KnownNamespace, name: &Arc<str>, queues: &[QueueKey]) {
        let known = self.namespaces.entry(of.clone()).or_default();
        if known.workers.len() >= WORKERS_MAX && !known.workers.contains_key(name) {
            return;
        }
        let worker = known.workers.entry(Arc::clone(name));
        let worker = worker.or_insert_with(|| KnownWorker {
            queues: Vec::new(),
            seen_at: Instant::now(),
            requests: 0,
            leases: BTreeMap::new(),
        });
        worker.queues = queues.iter().map(|queue| queue.queue.to_string()).collect();
        worker.requests += 1;
        known.has_changed = true;
    }

    pub(super) fn leave(&mut self, of: &KnownNamespace, name: &Arc<str>) {
        if let Some((worker, has_changed)) = self.worker(of, name) {
            worker.requests = worker.requests.saturating_sub(1);
            worker.seen_at = Instant::now();
            *has_changed = true;
        }
    }

    pub(super) fn holds(
        &mut self,
        of: &KnownNamespace,
        name: &Arc<str>,
        reserved: &ReservedJob<'_>,
    ) {
        let job = reserved.job;
        let Some((worker, has_changed)) = self.worker(of, name) else {
            return;
        };
        if worker.leases.len() >= LEASES_MAX {
            return;
        }
        let length = job.due_at_ms.saturating_sub(reserved.leased_at_ms);
        let lease = KnownLease {
            stored: StoredLease {
                id: job.id.to_string(),
                queue: reserved.queue.queue.to_string(),
                attempt: job.attempt,
                since_ms: reserved.leased_at_ms,
            },
            forgotten_at: Instant::now() + 10 * Duration::from_millis(length) + KEPT,
        };
        worker.leases.insert(job.id, lease);
        *has_changed = true;
        self.holders.insert(job.id, (of.clone(), Arc::clone(name)));
    }

    pub(super) fn has_leases(&self) -> bool {
        !self.holders.is_empty()
    }

    pub(super) fn ended(&mut self, job: JobId) {
        let Some((of, name)) = self.holders.remove(&job) else {
            return;
        };
        if let Some((worker, has_changed)) = self.worker(&of, &name) {
            worker.leases.remove(&job);
            *has_changed = true;
        }
    }

    /// The next call of [`Self::take_changed`] has this namespace again.
    pub(super) fn store_again(&mut self, of: &KnownNamespace) {
        self.namespaces.entry(of.clone()).or_default().has_changed = true;
    }

    /// The entries that have changed, or must be stored again so that they count on; empty = no worker is known any more.
    pub(super) fn take_changed(&mut self) -> Vec<(KnownNamespace, String)> {
        let now = Instant::now();
        self.forget(now);
        let mut changed = Vec::new();
        self.namespaces.retain(|of, known| {
            let is_old = known
                .stored_at
                .is_none_or(|stored_at| now - stored_at >= KEPT / 3);
            let is_empty = known.workers.is_empty();
            if known.has_changed || is_old || is_empty {
                known.has_changed = false;
                known.stored_at = Some(now);
                changed.push((of.clone(), known.text(now)));
            }
            !is_empty
        });
        changed
    }

    /// Forgets workers that ask no more and hold nothing, and leases that are too old.
    fn forget(&mut self, now: Instant) {
        let holders = &mut self.holders;
        for known in self.namespaces.values_mut() {
            known.workers.retain(|_, worker| {
                worker.leases.retain(|job, lease| {
                    let is_kept = lease.forgotten_at > now;
                    if !is_kept {
                        holders.remove(job);
                    }
                    is_kept
                });
                let is_active = worker.requests > 0 || !worker.leases.is_empty();
                is_active || now - worker.seen_at < REMEMBERED
            });
        }
    }

    fn worker(
        &mut self,
        of: &KnownNamespace,
        name: &Arc<str>,
    ) -> Option<(&mut KnownWorker, &mut bool)> {
        let known = self.namespaces.get_mut(of)?;
        Some((known.workers.get_mut(name)?, &mut known.has_changed))
    }
}

impl NamespaceWorkers {
    fn text(&self, now: Instant) -> String {
        if self.workers.is_empty() {
            return String::new();
        }
        let stored = self.workers.iter().map(|(name, worker)| {
            let waits = worker.requests > 0;
            let idle = match waits {
                true => Duration::ZERO,
                false => now - worker.seen_at,
            };
            let leases = worker.leases.values();
            StoredWorker {
                name: name.to_string(),
                queues: worker.queues.clone(),
                idle_ms: u64::try_from(idle.as_millis()).unwrap_or(u64::MAX),
                waits,
                leases: leases.map(|lease| lease.stored.clone()).collect(),
            }
        });
        let stored: Vec<StoredWorker> = stored.collect();
        serde_json::to_string(&stored).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of() -> KnownNamespace {
        KnownNamespace {
            pool: "default".into(),
            namespace: Namespace::try_from("shop").unwrap(),
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_worker_is_stored_when_it_changes_and_again_before_its_entry_ends() {
        let (mut registry, of, name) = (Registry::default(), of(), Arc::from("mailer"));
        registry.enter(&of, &name, &[QueueKey::try_from("shop/emails").unwrap()]);
        let stored = registry.take_changed();
        assert!(
            stored[0]
                .1
                .contains(r#""name":"mailer","queues":["emails"]"#),
            "{stored:?}"
        );
        assert!(registry.take_changed().is_empty());
        tokio::time::advance(KEPT / 3).await;
        assert_eq!(registry.take_changed().len(), 1, "its request waits");
        registry.leave(&of, &name);
        assert!(registry.take_changed()[0].1.contains(r#""waits":false"#));
        tokio::time::advance(REMEMBERED).await;
        assert_eq!(registry.take_changed(), [(of, String::new())]);
        assert!(registry.take_changed().is_empty());
    }

    #[tokio::test(start_paused = true)]
    async fn a_namespace_has_a_limited_number_of_workers() {
        let (mut registry, of) = (Registry::default(), of());
        for number in 0..WORKERS_MAX + 10 {
            let name = Arc::from(number.to_string());
            registry.enter(&of, &name, &[]);
            registry.leave(&of, &name);
        }
        let stored: Vec<StoredWorker> =
            serde_json::from_str(&registry.take_changed()[0].1).unwrap();
        assert_eq!(stored.len(), WORKERS_MAX);
    }
}
