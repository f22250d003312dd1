//! The workers of a namespace, from the entries of all processes.

use std::collections::BTreeMap;
use std::time::Duration;

use tidegate_core::{JobId, Namespace};
use tidegate_store::{LeasedJob, StoreError, WorkerEntry};

use super::stored::{KEPT, StoredLease, StoredWorker};
use crate::error::EngineError;
use crate::pool::Pool;

/// A page of workers ends when it has at least as many leases: each is compared with the record of its job.
const CHECKED_MAX: usize = 1_000;
/// The same for the bytes of their entries: they are about as long as their entries in the answer.
const PAGE_BYTES_MAX: usize = 900 * 1024;
/// How long a worker that holds nothing is listed after its last request.
const LISTED: Duration = KEPT;

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ListedWorker {
    pub name: String,
    /// The queues of its last requests.
    pub queues: Vec<String>,
    /// When its last request ended, in ms since 1970; now if one waits.
    pub seen_at_ms: u64,
    /// Whether a request of it waits for jobs.
    pub waits: bool,
    /// Jobs that it holds.
    pub leases: Vec<ListedLease>,
}

/// A job that a worker holds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ListedLease {
    pub id: JobId,
    /// The name of its queue.
    pub queue: String,
    /// The delivery.
    pub attempt: u32,
    /// When the lease began, in ms since 1970.
    pub since_ms: u64,
    /// When it ends, in ms since 1970.
    pub until_ms: u64,
}

/// A part of the workers of a namespace.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WorkerPage {
    /// The workers, by name.
    pub workers: Vec<ListedWorker>,
    /// The name after which the next page begins; `None` at the end.
    pub next: Option<String>,
}

/// The worker that holds a job.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct JobHolder {
    pub name: String,
    /// When the lease began, in ms since 1970.
    pub since_ms: u64,
}

impl Pool {
    /// A page of the workers of a namespace that have given their name within the last minute or hold jobs, behind the
    /// name `after`. It ends after `limit` workers, or when they have 1,000 jobs or about 1 MiB, and may have fewer.
    /// Each process knows up to 1,000 workers of a namespace, and lists up to 100 jobs of each: the jobs that it holds
    /// for the longest time.
    ///
    /// # Errors
    /// Redis gave no answer.
    pub async fn workers(
        &self,
        namespace: &Namespace,
        after: &str,
        limit: usize,
    ) -> Result<WorkerPage, EngineError> {
        let mut position = after.to_owned();
        let mut workers: BTreeMap<String, ListedWorker> = BTreeMap::new();
        let (mut leases, mut bytes, mut now_ms) = (0, 0, 0);
        let next = 'read: loop {
            let page = self.store().workers_list(namespace, &position).await?;
            now_ms = page.now_ms.max(now_ms);
            for entry in page.entries {
                let is_full =
                    workers.len() >= limit || leases >= CHECKED_MAX || bytes >= PAGE_BYTES_MAX;
                if is_full && !workers.contains_key(&entry.name) {
                    break 'read workers.last_key_value().map(|(name, _)| name.clone());
                }
                bytes += entry.name.len() + entry.value.len();
                leases += merge(&mut workers, entry, page.now_ms);
            }
            match page.next {
                Some(next) => position = next,
                None => break None,
            }
        };
        self.keep_held(&mut workers).await?;
        let mut workers: Vec<ListedWorker> = workers.into_values().collect();
        let since_ms = now_ms.saturating_sub(LISTED.as_millis() as u64);
        workers.retain(|it| it.waits || !it.leases.is_empty() || it.seen_at_ms > since_ms);
        for worker in &mut workers {
            worker.queues.sort();
            worker.queues.dedup();
            worker
                .leases
                .sort_by_key(|lease| (lease.since_ms, lease.id));
        }
        Ok(WorkerPage { workers, next })
    }

    /// The worker with a name that has this delivery of a job; `None` if none is known. It reads the entries of all
    /// workers of the namespace.
    ///
    /// # Errors
    /// Redis gave no answer.
    pub async fn holder(
        &self,
        namespace: &Namespace,
        job: LeasedJob,
    ) -> Result<Option<JobHolder>, EngineError> {
        let (id, mut position) = (job.id.to_string(), String::new());
        loop {
            let page = self.store().workers_list(namespace, &position).await?;
            let mut with_id = page.entries.iter().filter(|it| it.value.contains(&id));
            let holder = with_id.find_map(|entry| {
                let worker: StoredWorker = serde_json::from_str(&entry.value).ok()?;
                let mut leases = worker.leases.into_values().flatten();
                let lease = leases.find(|lease| lease.0 == id && lease.1 == job.attempt)?;
                Some(JobHolder {
                    name: entry.name.clone(),
                    since_ms: lease.2,
                })
            });
            match (holder, page.next) {
                (Some(holder), _) => return Ok(Some(holder)),
                (None, Some(next)) => position = next,
                (None, None) => return Ok(None),
            }
        }
    }

    /// For each delivery until when its lease lasts, in ms since 1970; `None` if it does not hold the job any more.
    pub(crate) async fn leases_until(
        &self,
        jobs: &[LeasedJob],
    ) -> Result<Vec<Option<u64>>, StoreError> {
        let mut until = vec![None; jobs.len()];
        for pool in self.with_target() {
            let here = pool.store().leases_until(jobs).await?;
            for (until, here) in until.iter_mut().zip(here) {
                *until = here.max(*until);
            }
        }
        Ok(until)
    }

    /// Removes leases that have ended, and sets the ends of the others.
    async fn keep_held(
        &self,
        workers: &mut BTreeMap<String, ListedWorker>,
    ) -> Result<(), EngineError> {
        let leases = workers.values().flat_map(|worker| &worker.leases);
        let jobs = leases.map(|lease| LeasedJob {
            id: lease.id,
            attempt: lease.attempt,
        });
        let jobs: Vec<LeasedJob> = jobs.collect();
        let mut until = self.leases_until(&jobs).await?.into_iter();
        for worker in workers.values_mut() {
            worker.leases.retain_mut(|lease| {
                let until_ms = until.next().flatten();
                lease.until_ms = until_ms.unwrap_or(0);
                until_ms.is_some()
            });
        }
        Ok(())
    }
}

/// Adds what a process knows of a worker. Returns the number of leases.
fn merge(workers: &mut BTreeMap<String, ListedWorker>, entry: WorkerEntry, now_ms: u64) -> usize {
    // An entry of another version of this program may have another form.
    let Ok(stored) = serde_json::from_str::<StoredWorker>(&entry.value) else {
        return 0;
    };
    let age_ms = KEPT.saturating_sub(entry.left).as_millis() as u64;
    let idle_ms = match stored.waits {
        true => 0,
        false => stored.idle_ms.saturating_add(age_ms),
    };
    let worker = workers
        .entry(entry.name.clone())
        .or_insert_with(|| ListedWorker {
            name: entry.name,
            queues: Vec::new(),
            seen_at_ms: 0,
            waits: false,
            leases: Vec::new(),
        });
    worker.queues.extend(stored.queues);
    worker.seen_at_ms = worker.seen_at_ms.max(now_ms.saturating_sub(idle_ms));
    worker.waits |= stored.waits;
    let before = worker.leases.len();
    for (queue, leases) in stored.leases {
        let leases = leases
            .into_iter()
            .filter_map(|StoredLease(id, attempt, since_ms)| {
                Some(ListedLease {
                    id: id.parse().ok()?,
                    queue: queue.clone(),
                    attempt,
                    since_ms,
                    until_ms: 0,
                })
            });
        worker.leases.extend(leases);
    }
    worker.leases.len() - before
}
