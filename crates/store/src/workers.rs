//! The workers of a namespace, as the processes to which they talk know them. Hints for people: no job depends on them.

use std::sync::Arc;
use std::time::Duration;

use futures_util::future::try_join_all;
use tidegate_core::{JobState, Namespace, keys};

use crate::error::StoreError;
use crate::script::{LazyScript, script};
use crate::store::Store;
use crate::verbs::LeasedJob;

static WORKERS_SET: LazyScript = script!("workers_set");
static WORKERS_LIST: LazyScript = script!("workers_list");

/// Maximum number of entries that one call reads: with 100 leases each they hold Redis for less than 0.5 ms.
const ENTRIES_MAX: usize = 25;

/// A worker as a process knows it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WorkerEntry {
    /// The name of the worker.
    pub name: String,
    /// For how much longer the entry counts.
    pub left: Duration,
    /// The worker.
    pub value: String,
}

impl WorkerEntry {
    /// Reads until when it counts, a space, and the worker; `None` if it counts no longer.
    fn read(name: &str, rest: &str, now_ms: u64) -> Option<Self> {
        let (end_ms, value) = rest.split_once(' ')?;
        let left_ms = end_ms.parse::<u64>().ok()?.checked_sub(now_ms + 1)? + 1;
        Some(Self {
            name: name.to_owned(),
            left: Duration::from_millis(left_ms),
            value: value.to_owned(),
        })
    }
}

/// Workers of a namespace as all processes know them, in the order of their names.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoredWorkers {
    /// The time on the clock of Redis, in ms since 1970.
    pub now_ms: u64,
    /// The entries. The entries of a worker are adjacent, and may continue in the next page.
    pub entries: Vec<WorkerEntry>,
    /// Where the next page begins; `None` at the end.
    pub next: Option<String>,
}

impl Store {
    /// Stores what a process knows of these workers of a namespace, at least one, for the time `kept`: their names and
    /// entries. The caller bounds their number and size, as all are stored in one call.
    ///
    /// # Errors
    /// Redis is unavailable.
    pub async fn workers_set(
        &self,
        namespace: &Namespace,
        process: &str,
        workers: &[(Arc<str>, String)],
        kept: Duration,
    ) -> Result<(), StoreError> {
        let key = keys::workers(namespace.as_str());
        let kept_ms = u64::try_from(kept.as_millis()).unwrap_or(u64::MAX);
        let mut call = self.call(&WORKERS_SET, key).arg(process).arg(kept_ms);
        call = call.arg(rand::random::<u32>());
        for (name, value) in workers {
            call = call.arg(&**name).arg(value);
        }
        call.send().await?.ok()?;
        Ok(())
    }

    /// A page of the workers of a namespace, behind a name or the end of another page; from the first one if `after` is
    /// empty.
    ///
    /// # Errors
    /// Redis is unavailable.
    pub async fn workers_list(
        &self,
        namespace: &Namespace,
        after: &str,
    ) -> Result<StoredWorkers, StoreError> {
        let call = self.call(&WORKERS_LIST, keys::workers(namespace.as_str()));
        let call = call.arg(after).arg(ENTRIES_MAX);
        let mut reply = call.send().await?.ok()?;
        let now_ms = reply.count()?;
        let (mut entries, mut read, mut last) = (Vec::new(), 0, None);
        while reply.has_more() {
            read += 1;
            let text = String::from_utf8_lossy(&reply.bytes()?).into_owned();
            let mut parts = text.splitn(3, '\0');
            if let (Some(name), Some(process), Some(rest)) =
                (parts.next(), parts.next(), parts.next())
            {
                last = Some(format!("{name}\0{process}"));
                entries.extend(WorkerEntry::read(name, rest, now_ms));
            }
        }
        Ok(StoredWorkers {
            now_ms,
            entries,
            next: last.filter(|_| read == ENTRIES_MAX),
        })
    }

    /// For each delivery until when its lease lasts, in ms since 1970; `None` if it does not hold the job any more.
    ///
    /// # Errors
    /// Redis is unavailable.
    pub async fn leases_until(&self, jobs: &[LeasedJob]) -> Result<Vec<Option<u64>>, StoreError> {
        try_join_all(jobs.iter().map(|job| self.lease_until(*job))).await
    }

    async fn lease_until(&self, job: LeasedJob) -> Result<Option<u64>, StoreError> {
        let id = job.id;
        if !self.has_bucket_of(id) {
            return Ok(None);
        }
        let header = self.record_parts(id).await?.map(|parts| parts.header);
        let holds = header.filter(|header| {
            let is_same = header.id(id.bucket(), id.number()) == id;
            is_same && header.state == JobState::Leased && header.attempt == job.attempt
        });
        Ok(holds.map(|header| header.due_at_ms))
    }
}
