//! The workers that this process knows. It does no I/O.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::time::Duration;

use tidegate_core::{JobId, Namespace, QueueKey, QueueName};
use tidegate_store::LeasedJob;
use tokio::time::Instant;

use super::stored::{KEPT, StoredLease, StoredWorker};
use crate::consume::waiters::ReservedJob;

/// The most workers of a namespace that a process knows; others are left out.
const WORKERS_MAX: usize = 1_000;
/// The most leases of a worker that are stored: the leases that it holds for the longest time.
pub const LEASES_STORED_MAX: usize = 100;
/// About how many bytes of leases of a worker are stored. 100 leases of one queue have 5 KiB.
const LEASES_BYTES_MAX: usize = 10 * 1024;
/// About how many bytes one of them has.
const LEASE_BYTES: usize = 50;
/// The most leases of a worker that a process knows. Leases that would end first make room for others: many of them
/// have ended elsewhere.
const LEASES_KNOWN_MAX: usize = 200;
/// The most leases that one round compares with the records of their jobs.
const CHECKED_MAX: usize = 1_000;
/// How long the result of a comparison counts.
const CHECK_INTERVAL: Duration = Duration::from_secs(10);
/// How long a worker is known after its last request.
const REMEMBERED: Duration = KEPT;
/// The most workers, and about how many bytes, that one call stores: it holds Redis for less than 1 ms.
const PART_WORKERS_MAX: usize = 10;
const PART_BYTES_MAX: usize = 24 * 1024;

/// A namespace of a pool.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct KnownNamespace {
    pub(super) pool: Arc<str>,
    pub(super) namespace: Namespace,
}

/// All that is known.
#[derive(Debug, Default)]
pub(super) struct Registry {
    namespaces: HashMap<KnownNamespace, BTreeMap<Arc<str>, KnownWorker>>,
    /// Who holds a job. Each has this lease.
    holders: HashMap<JobId, (KnownNamespace, Arc<str>)>,
}

#[derive(Debug)]
struct KnownWorker {
    queues: Vec<String>,
    seen_at: Instant,
    /// Requests that have not ended.
    requests: usize,
    leases: BTreeMap<JobId, KnownLease>,
    has_changed: bool,
    stored_at: Option<Instant>,
}

#[derive(Debug)]
struct KnownLease {
    queue: QueueName,
    attempt: u32,
    since_ms: u64,
    /// The same instant on the local clock.
    since: Instant,
    /// When it ends, unless it is extended by a call to another process.
    until: Instant,
    checked_at: Option<Instant>,
}

impl KnownLease {
    fn set_until(&mut self, until_ms: u64) {
        self.until = self.since + Duration::from_millis(until_ms.saturating_sub(self.since_ms));
    }
}

impl Registry {
    pub(super) fn enter(&mut self, of: &KnownNamespace, name: &Arc<str>, queues: &[QueueKey]) {
        let workers = self.namespaces.entry(of.clone()).or_default();
        if workers.len() >= WORKERS_MAX && !workers.contains_key(name) {
            return;
        }
        let worker = workers
            .entry(Arc::clone(name))
            .or_insert_with(|| KnownWorker {
                queues: Vec::new(),
                seen_at: Instant::now(),
                requests: 0,
                leases: BTreeMap::new(),
                has_changed: true,
                stored_at: None,
            });
        worker.queues = queues.iter().map(|queue| queue.queue.to_string()).collect();
        worker.requests += 1;
        worker.has_changed = true;
    }

    pub(super) fn leave(&mut self, of: &KnownNamespace, name: &Arc<str>) {
        if let Some(worker) = self.worker(of, name) {
            worker.requests = worker.requests.saturating_sub(1);
            worker.seen_at = Instant::now();
            worker.has_changed = true;
        }
    }

    pub(super) fn holds<'a>(
        &mut self,
        of: &KnownNamespace,
        name: &Arc<str>,
        jobs: impl Iterator<Item = ReservedJob<'a>>,
    ) {
        let since = Instant::now();
        for ReservedJob {
            queue,
            job,
            leased_at_ms,
        } in jobs
        {
            // An earlier lease of the job has ended.
            self.forget(job.id);
            let Some(worker) = self.worker(of, name) else {
                return;
            };
            let mut lease = KnownLease {
                queue: queue.queue.clone(),
                attempt: job.attempt,
                since_ms: leased_at_ms,
                since,
                until: since,
                checked_at: None,
            };
            lease.set_until(job.due_at_ms);
            worker.leases.insert(job.id, lease);
            worker.has_changed = true;
            self.holders.insert(job.id, (of.clone(), Arc::clone(name)));
        }
        self.make_room(of, name);
    }

    fn make_room(&mut self, of: &KnownNamespace, name: &Arc<str>) {
        let Some(worker) = self.worker(of, name) else {
            return;
        };
        let excess = worker.leases.len().saturating_sub(LEASES_KNOWN_MAX);
        if excess == 0 {
            return;
        }
        let leases = worker.leases.iter();
        let mut leases: Vec<(Instant, JobId)> = leases.map(|(id, it)| (it.until, *id)).collect();
        leases.sort_unstable();
        for (_, job) in leases.into_iter().take(excess) {
            self.forget(job);
        }
    }

    pub(super) fn has_leases(&self) -> bool {
        !self.holders.is_empty()
    }

    /// This delivery of a job holds it no longer.
    pub(super) fn ended(&mut self, job: LeasedJob) {
        if self.lease(job).is_some() {
            self.forget(job.id);
        }
    }

    /// This delivery of a job holds it until then.
    pub(super) fn extended(&mut self, job: LeasedJob, until_ms: u64) {
        if let Some(lease) = self.lease(job) {
            lease.set_until(until_ms);
        }
    }

    /// Leases that may have ended elsewhere, or were extended there, by pool: those whose end has passed, and all of
    /// workers that have more than are stored. At most as many as one round compares, the longest unchecked first.
    pub(super) fn unchecked(&self) -> HashMap<Arc<str>, Vec<LeasedJob>> {
        let now = Instant::now();
        let mut leases = Vec::new();
        for (of, workers) in &self.namespaces {
            for worker in workers.values() {
                let is_full = worker.leases.len() > LEASES_STORED_MAX;
                let unchecked = worker.leases.iter().filter(|(_, lease)| {
                    let is_old = |at| now - at >= CHECK_INTERVAL;
                    (is_full || lease.until <= now) && lease.checked_at.is_none_or(is_old)
                });
                leases.extend(
                    unchecked.map(|(id, it)| (it.checked_at, it.since, *id, of, it.attempt)),
                );
            }
        }
        if leases.len() > CHECKED_MAX {
            leases.select_nth_unstable_by_key(CHECKED_MAX, |&(checked_at, since, id, ..)| {
                (checked_at, since, id)
            });
            leases.truncate(CHECKED_MAX);
        }
        let mut by_pool: HashMap<Arc<str>, Vec<LeasedJob>> = HashMap::new();
        for (_, _, id, of, attempt) in leases {
            let of_pool = by_pool.entry(Arc::clone(&of.pool)).or_default();
            of_pool.push(LeasedJob { id, attempt });
        }
        by_pool
    }

    /// Until when this delivery holds the job, as the record of the job says; `None` = it does not hold the job any
    /// more.
    pub(super) fn checked(&mut self, job: LeasedJob, until_ms: Option<u64>) {
        match (until_ms, self.lease(job)) {
            (Some(until_ms), Some(lease)) => {
                lease.set_until(until_ms);
                lease.checked_at = Some(Instant::now());
            }
            (None, Some(_)) => self.forget(job.id),
            (_, None) => {}
        }
    }

    /// The workers that have changed, or must be stored again so that they count on. Forgets the workers that ask no
    /// more and hold nothing.
    pub(super) fn changed(&mut self) -> Vec<(KnownNamespace, Vec<Arc<str>>)> {
        let now = Instant::now();
        let mut changed = Vec::new();
        self.namespaces.retain(|of, workers| {
            workers.retain(|_, worker| {
                let is_active = worker.requests > 0 || !worker.leases.is_empty();
                is_active || now - worker.seen_at < REMEMBERED
            });
            let of_namespace = workers.iter().filter(|(_, worker)| {
                let is_old = |at| now - at >= KEPT / 3;
                worker.has_changed || worker.stored_at.is_none_or(is_old)
            });
            let names: Vec<Arc<str>> = of_namespace.map(|(name, _)| Arc::clone(name)).collect();
            if !names.is_empty() {
                changed.push((of.clone(), names));
            }
            !workers.is_empty()
        });
        changed
    }

    /// The entries of the last of these workers, which are removed from `names`: as many as one call stores.
    pub(super) fn take_part(
        &mut self,
        of: &KnownNamespace,
        names: &mut Vec<Arc<str>>,
    ) -> Vec<(Arc<str>, String)> {
        let now = Instant::now();
        let (mut part, mut bytes) = (Vec::new(), 0);
        while part.len() < PART_WORKERS_MAX && bytes < PART_BYTES_MAX {
            let Some(name) = names.pop() else {
                break;
            };
            if let Some(worker) = self.worker(of, &name) {
                worker.has_changed = false;
                worker.stored_at = Some(now);
                let text = serde_json::to_string(&worker.to_stored(now)).unwrap_or_default();
                bytes += text.len();
                part.push((name, text));
            }
        }
        part
    }

    /// Workers of this namespace with these names have not been stored.
    pub(super) fn store_again(
        &mut self,
        of: &KnownNamespace,
        names: impl Iterator<Item = Arc<str>>,
    ) {
        for name in names {
            if let Some(worker) = self.worker(of, &name) {
                worker.has_changed = true;
            }
        }
    }

    fn worker(&mut self, of: &KnownNamespace, name: &Arc<str>) -> Option<&mut KnownWorker> {
        self.namespaces.get_mut(of)?.get_mut(name)
    }

    /// The lease of this delivery; `None` if it is unknown, or another one holds the job.
    fn lease(&mut self, job: LeasedJob) -> Option<&mut KnownLease> {
        let (of, name) = self.holders.get(&job.id)?;
        let worker = self.namespaces.get_mut(of)?.get_mut(name)?;
        let lease = worker.leases.get_mut(&job.id)?;
        (lease.attempt == job.attempt).then_some(lease)
    }

    /// Forgets the lease of a job.
    fn forget(&mut self, job: JobId) {
        let Some((of, name)) = self.holders.remove(&job) else {
            return;
        };
        if let Some(worker) = self.worker(&of, &name) {
            worker.leases.remove(&job);
            worker.has_changed = true;
        }
    }
}

impl KnownWorker {
    fn to_stored(&self, now: Instant) -> StoredWorker {
        let waits = self.requests > 0;
        let idle = match waits {
            true => Duration::ZERO,
            false => now - self.seen_at,
        };
        let mut longest: Vec<(&JobId, &KnownLease)> = self.leases.iter().collect();
        longest.sort_unstable_by_key(|(id, lease)| (lease.since_ms, **id));
        let (mut leases, mut bytes) = (BTreeMap::<String, Vec<StoredLease>>::new(), 0);
        for (id, lease) in longest.into_iter().take(LEASES_STORED_MAX) {
            let stored = StoredLease(id.to_string(), lease.attempt, lease.since_ms);
            let of_queue = leases.entry(lease.queue.to_string()).or_default();
            bytes += LEASE_BYTES
                + if of_queue.is_empty() {
                    lease.queue.as_str().len()
                } else {
                    0
                };
            of_queue.push(stored);
            if bytes >= LEASES_BYTES_MAX {
                break;
            }
        }
        StoredWorker {
            queues: self.queues.clone(),
            idle_ms: u64::try_from(idle.as_millis()).unwrap_or(u64::MAX),
            waits,
            leases,
        }
    }
}

#[cfg(test)]
mod tests;
