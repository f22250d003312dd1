//! The workers of a namespace, from the entries of all processes.

use std::collections::BTreeMap;

use tidegate_core::{JobId, Namespace};
use tidegate_store::LeasedJob;

use super::stored::{KEPT, StoredWorker};
use crate::error::EngineError;
use crate::pool::Pool;

/// The most leases of one list that are compared with the records of their jobs; others are left out.
const CHECKED_MAX: usize = 1_000;

/// A worker.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ListedWorker {
    /// Its name.
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
    /// Its id.
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

impl Pool {
    /// The workers of a namespace that have given their name within the last minute or hold jobs, by name. Each process
    /// knows up to 1,000, and 100 jobs of each.
    ///
    /// # Errors
    /// Redis gave no answer.
    pub async fn workers(&self, namespace: &Namespace) -> Result<Vec<ListedWorker>, EngineError> {
        let stored = self.store().workers_list(namespace).await?;
        let mut workers: BTreeMap<String, ListedWorker> = BTreeMap::new();
        let mut leases = Vec::new();
        for (left, entry) in &stored.entries {
            let age_ms = KEPT.saturating_sub(*left).as_millis() as u64;
            // An entry of another version of this program may have another form.
            let of_process: Vec<StoredWorker> = serde_json::from_str(entry).unwrap_or_default();
            for worker in of_process {
                let idle_ms = match worker.waits {
                    true => 0,
                    false => worker.idle_ms + age_ms,
                };
                let seen_at_ms = stored.now_ms.saturating_sub(idle_ms);
                let held = worker.leases.into_iter().filter_map(|lease| {
                    let id: JobId = lease.id.parse().ok()?;
                    Some(ListedLease {
                        id,
                        queue: lease.queue,
                        attempt: lease.attempt,
                        since_ms: lease.since_ms,
                        until_ms: 0,
                    })
                });
                leases.extend(held.map(|lease| (worker.name.clone(), lease)));
                let merged = workers.entry(worker.name.clone());
                let merged = merged.or_insert_with(|| ListedWorker {
                    name: worker.name,
                    queues: Vec::new(),
                    seen_at_ms: 0,
                    waits: false,
                    leases: Vec::new(),
                });
                merged.queues.extend(worker.queues);
                merged.seen_at_ms = merged.seen_at_ms.max(seen_at_ms);
                merged.waits |= worker.waits;
            }
        }
        leases.truncate(CHECKED_MAX);
        for (name, lease) in self.that_last(leases).await? {
            if let Some(worker) = workers.get_mut(&name) {
                worker.leases.push(lease);
            }
        }
        for worker in workers.values_mut() {
            worker.queues.sort();
            worker.queues.dedup();
            worker
                .leases
                .sort_by_key(|lease| (lease.since_ms, lease.id));
        }
        Ok(workers.into_values().collect())
    }

    /// Those leases that have not ended, with their ends.
    async fn that_last(
        &self,
        mut leases: Vec<(String, ListedLease)>,
    ) -> Result<Vec<(String, ListedLease)>, EngineError> {
        let jobs: Vec<LeasedJob> = leases
            .iter()
            .map(|(_, lease)| LeasedJob {
                id: lease.id,
                attempt: lease.attempt,
            })
            .collect();
        for pool in self.with_target() {
            let until = pool.store().leases_until(&jobs).await?;
            for ((_, lease), until_ms) in leases.iter_mut().zip(until) {
                lease.until_ms = lease.until_ms.max(until_ms.unwrap_or(0));
            }
        }
        leases.retain(|(_, lease)| lease.until_ms > 0);
        Ok(leases)
    }
}
