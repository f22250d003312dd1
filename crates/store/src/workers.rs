//! The workers of a namespace, as the processes to which they talk know them. Hints for people: no job depends on them.

use std::time::Duration;

use futures_util::future::try_join_all;
use redis::Cmd;
use tidegate_core::codec::RecordParts;
use tidegate_core::keys::BucketKey;
use tidegate_core::{JobState, Namespace, keys};

use crate::error::StoreError;
use crate::script::{LazyScript, script};
use crate::store::Store;
use crate::verbs::LeasedJob;

static WORKERS_SET: LazyScript = script!("workers_set");
static WORKERS_LIST: LazyScript = script!("workers_list");

/// What all processes know of the workers of a namespace.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoredWorkers {
    /// The time on the clock of Redis, in ms since 1970.
    pub now_ms: u64,
    /// For each process for how much longer its entry counts, and the entry.
    pub entries: Vec<(Duration, String)>,
}

impl Store {
    /// Stores what a process knows of the workers of a namespace, for the time `kept`. Empty = it knows none.
    ///
    /// # Errors
    /// Redis is unavailable.
    pub async fn workers_set(
        &self,
        namespace: &Namespace,
        process: &str,
        value: &str,
        kept: Duration,
    ) -> Result<(), StoreError> {
        let key = keys::workers(namespace.as_str());
        let call = self.call(&WORKERS_SET, key).arg(process).arg(value);
        let kept_ms = u64::try_from(kept.as_millis()).unwrap_or(u64::MAX);
        call.arg(kept_ms).send().await?.ok()?;
        Ok(())
    }

    /// What all processes know of the workers of a namespace.
    ///
    /// # Errors
    /// Redis is unavailable.
    pub async fn workers_list(&self, namespace: &Namespace) -> Result<StoredWorkers, StoreError> {
        let key = keys::workers(namespace.as_str());
        let mut reply = self.call(&WORKERS_LIST, key).send().await?.ok()?;
        let now_ms = reply.count()?;
        let mut entries = Vec::new();
        while reply.has_more() {
            let left = Duration::from_millis(reply.count()?);
            let value = String::from_utf8_lossy(&reply.bytes()?).into_owned();
            entries.push((left, value));
        }
        Ok(StoredWorkers { now_ms, entries })
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
        let chunk = BucketKey::Chunk(id.number() / 100);
        let place = format!("{:02}", id.number() % 100);
        let get = Cmd::hget(self.keys(id.bucket()).key(&chunk), place);
        let record: Option<Vec<u8>> = self.command(&get).await?;
        let parts = record.and_then(|record| RecordParts::split(&record.into()).ok());
        let header = parts.map(|parts| parts.header);
        let holds = header.filter(|header| {
            let is_same = header.id(id.bucket(), id.number()) == id;
            is_same && header.state == JobState::Leased && header.attempt == job.attempt
        });
        Ok(holds.map(|header| header.due_at_ms))
    }
}
