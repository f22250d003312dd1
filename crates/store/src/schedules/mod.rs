//! Schedules. Their definitions are in a table with revisions for each namespace, as relays are: the table is the
//! truth. The bucket of the queue of a schedule has its next tick, with the revision that it was calculated for: a hint
//! to look at the table. `docs/decisions/0063-schedules.md`.

mod definition;

use std::collections::BTreeMap;
use std::fmt;

use futures_util::future::try_join_all;
use redis::Cmd;
use tidegate_core::{Namespace, QueueKey, QueueName, keys};

pub use self::definition::{SCHEDULE_ATTRIBUTE, ScheduleDefinition, ScheduleTimes, ScheduledJob};
use crate::error::StoreError;
use crate::store::Store;
use crate::table_revision::TableRevision;
use crate::table_set::{RevisionTable, TableSetOutcome};

/// About how many definitions one call reads. With payloads of 16 KiB they are 400 kB.
const DEFINITIONS_PER_CALL: u64 = 10;

/// A page of definitions ends before it has more than this many bytes.
const PAGE_BYTES_MAX: usize = 1024 * 1024;

/// The field with the last revision.
const LAST_REVISION: &str = "#";

/// The name of a schedule in its namespace.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ScheduleKey {
    /// The namespace.
    pub namespace: Namespace,
    /// The name. It has no slash.
    pub name: String,
}

impl fmt::Display for ScheduleKey {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{}/{}", self.namespace, self.name)
    }
}

impl ScheduleKey {
    /// The key of a name as the hash of a schedule has it; `None` if it is none.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let (namespace, name) = text.split_once('/')?;
        Self::read(namespace.as_bytes(), name.as_bytes())
    }

    /// The key of names as they are in a bucket; `None` if they are none.
    pub(crate) fn read(namespace: &[u8], name: &[u8]) -> Option<Self> {
        let namespace = std::str::from_utf8(namespace).ok()?;
        let name = std::str::from_utf8(name).ok()?;
        Some(Self {
            namespace: Namespace::try_from(namespace).ok()?,
            name: (!name.contains('/')).then(|| name.to_owned())?,
        })
    }

    /// Namespace and name, as scripts get them.
    pub(crate) fn parts(&self) -> (&[u8], &[u8]) {
        (self.namespace.as_str().as_bytes(), self.name.as_bytes())
    }

    /// The key of its jobs, unless they may overlap.
    #[must_use]
    pub fn job_key(&self) -> String {
        format!("schedule:{}", self.name)
    }
}

/// The stored definition is damaged, or of a later release.
#[derive(Debug, thiserror::Error)]
#[error("the stored schedule cannot be read: {0}")]
pub struct BadDefinition(String);

/// A schedule as it is stored.
#[derive(Debug)]
pub struct StoredSchedule {
    /// Its revision; `None` if it cannot be read.
    pub revision: Option<TableRevision>,
    /// Its definition.
    pub definition: Result<ScheduleDefinition, BadDefinition>,
}

impl StoredSchedule {
    fn read(text: &[u8]) -> Self {
        let text = String::from_utf8_lossy(text);
        let (revision, value) = text.split_once(' ').unwrap_or_default();
        let definition = serde_json::from_str(value);
        Self {
            revision: revision.parse().ok(),
            definition: definition.map_err(|error| BadDefinition(error.to_string())),
        }
    }

    /// The queue; `None` if the definition is damaged.
    #[must_use]
    pub fn queue(&self, namespace: &Namespace) -> Option<QueueKey> {
        let definition = self.definition.as_ref().ok()?;
        Some(QueueKey {
            namespace: namespace.clone(),
            queue: QueueName::try_from(definition.queue.as_str()).ok()?,
        })
    }
}

/// A page of the schedules of a namespace, by name.
#[derive(Debug)]
pub struct SchedulePage {
    /// Their names and stored forms.
    pub schedules: Vec<(String, StoredSchedule)>,
    /// Whether others follow.
    pub has_more: bool,
}

/// The ticks of a schedule, in ms since 1970.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ScheduleTicks {
    /// The next one; `None` = it has none.
    pub next_ms: Option<u64>,
    /// The last handled tick: its job was published, or left out by the policy or the overlap; `None` = none yet.
    pub last_ms: Option<u64>,
}

/// The schedules of one deployment.
#[derive(Debug, Clone)]
pub struct Schedules {
    store: Store,
}

impl Schedules {
    /// The schedule with this name, if it exists.
    ///
    /// # Errors
    /// Redis is unavailable.
    pub async fn get(&self, key: &ScheduleKey) -> Result<Option<StoredSchedule>, StoreError> {
        let field = Cmd::hget(keys::schedules(key.namespace.as_str()), &key.name);
        let text: Option<Vec<u8>> = self.store.command(&field).await?;
        Ok(text.map(|text| StoredSchedule::read(&text)))
    }

    /// Several schedules of a namespace, in the order of the names; `None` where there is none. They are read together.
    ///
    /// # Errors
    /// Redis is unavailable.
    pub async fn of_names(
        &self,
        namespace: &Namespace,
        names: &[&str],
    ) -> Result<Vec<Option<StoredSchedule>>, StoreError> {
        let mut fields = redis::cmd("HMGET");
        fields.arg(keys::schedules(namespace.as_str())).arg(names);
        let texts: Vec<Option<Vec<u8>>> = self.store.large_command(&fields).await?;
        let read = |text: Option<Vec<u8>>| text.map(|text| StoredSchedule::read(&text));
        Ok(texts.into_iter().map(read).collect())
    }

    /// All schedules of a namespace, by name. Schedules that are set meanwhile may be missing.
    ///
    /// # Errors
    /// Redis is unavailable.
    pub async fn all(
        &self,
        namespace: &Namespace,
    ) -> Result<BTreeMap<String, StoredSchedule>, StoreError> {
        type Fields = Vec<(Vec<u8>, Vec<u8>)>;
        let (mut all, mut cursor) = (BTreeMap::new(), 0_u64);
        loop {
            let mut scan = redis::cmd("HSCAN");
            scan.arg(keys::schedules(namespace.as_str())).arg(cursor);
            scan.arg("COUNT").arg(DEFINITIONS_PER_CALL);
            let (next, fields): (u64, Fields) = self.store.large_command(&scan).await?;
            let schedules = fields
                .into_iter()
                // No schedule has a name that is not UTF-8.
                .filter_map(|(name, text)| Some((String::from_utf8(name).ok()?, text)))
                .filter(|(name, _)| !name.starts_with(LAST_REVISION));
            all.extend(schedules.map(|(name, text)| (name, StoredSchedule::read(&text))));
            if next == 0 {
                return Ok(all);
            }
            cursor = next;
        }
    }

    /// The schedules of a namespace behind the name `after`: up to `limit`, and up to 1 MiB, at least one. Only their
    /// definitions are read.
    ///
    /// # Errors
    /// Redis is unavailable.
    pub async fn page(
        &self,
        namespace: &Namespace,
        after: Option<&str>,
        limit: usize,
    ) -> Result<SchedulePage, StoreError> {
        let key = keys::schedules(namespace.as_str());
        let names = self.store.large_command(&Cmd::hkeys(&key)).await?;
        let names: Vec<Vec<u8>> = names;
        let mut names: Vec<String> = names
            .into_iter()
            .filter_map(|name| String::from_utf8(name).ok())
            .filter(|name| !name.starts_with(LAST_REVISION))
            .filter(|name| after.is_none_or(|after| name.as_str() > after))
            .collect();
        names.sort_unstable();
        let (mut schedules, mut bytes) = (Vec::new(), 0);
        let within = names.get(..limit).unwrap_or(&names);
        for names_of_call in within.chunks(DEFINITIONS_PER_CALL as usize) {
            let get = Cmd::hmget(&key, names_of_call);
            let texts: Vec<Option<Vec<u8>>> = self.store.large_command(&get).await?;
            for (name, text) in names_of_call.iter().zip(texts) {
                // One that was removed meanwhile is left out.
                let Some(text) = text else { continue };
                bytes += text.len();
                if bytes > PAGE_BYTES_MAX && !schedules.is_empty() {
                    let has_more = true;
                    return Ok(SchedulePage {
                        schedules,
                        has_more,
                    });
                }
                schedules.push((name.clone(), StoredSchedule::read(&text)));
            }
        }
        Ok(SchedulePage {
            has_more: within.len() < names.len(),
            schedules,
        })
    }

    /// Sets a schedule. With `expected`, only if that is its revision; revision 0 = there is none. If a definition is
    /// stored, the queue must be the same. A pump gets an alarm. A tick that is due stays due, if the times of the
    /// ticks stay.
    ///
    /// # Errors
    /// Redis is unavailable; the change may be executed nevertheless, even later.
    pub async fn set(
        &self,
        key: &ScheduleKey,
        queue: &QueueKey,
        definition: &ScheduleDefinition,
        expected: Option<TableRevision>,
    ) -> Result<TableSetOutcome, StoreError> {
        let value = serde_json::to_string(definition);
        let value = value.map_err(|error| StoreError::corrupt(error.to_string()))?;
        // If this process dies behind the next step, a pump finds the definition.
        self.store.schedule_check(key, queue).await?;
        let outcome = self.set_entry(key, value, expected).await?;
        if let TableSetOutcome::Done(revision) = outcome {
            let calls = self
                .store
                .schedule_set(key, queue, definition, revision, None);
            calls.await?;
        }
        Ok(outcome)
    }

    /// Removes a schedule, if it has this revision; `None` = any, since that cannot be read. Once this has returned, no
    /// job is published for it.
    ///
    /// # Errors
    /// Redis is unavailable; the change may be executed nevertheless, even later.
    pub async fn remove(
        &self,
        key: &ScheduleKey,
        queue: Option<&QueueKey>,
        expected: Option<TableRevision>,
    ) -> Result<TableSetOutcome, StoreError> {
        let outcome = self.set_entry(key, String::new(), expected).await?;
        if let (TableSetOutcome::Done(_), Some(queue)) = (outcome, queue) {
            let expected = expected.unwrap_or_default();
            self.store.schedule_remove(key, queue, expected).await?;
        }
        Ok(outcome)
    }

    /// The next tick of a schedule, in ms since 1970, as it is stored; `None` = it has none.
    ///
    /// # Errors
    /// Redis is unavailable.
    pub async fn next_ms(
        &self,
        key: &ScheduleKey,
        queue: &QueueKey,
    ) -> Result<Option<u64>, StoreError> {
        let keys = self.store.keys(self.store.bucket_of(queue));
        let tick = Cmd::hget(keys.schedule(&key.to_string()), "tick");
        self.store.command(&tick).await
    }

    /// The next ticks of several schedules, in their order. They are read together: it takes as long as reading one.
    ///
    /// # Errors
    /// Redis is unavailable.
    pub async fn all_next_ms(
        &self,
        schedules: &[(&ScheduleKey, &QueueKey)],
    ) -> Result<Vec<Option<u64>>, StoreError> {
        let reading = schedules
            .iter()
            .map(|(key, queue)| self.next_ms(key, queue));
        try_join_all(reading).await
    }

    /// The next and the last tick of a schedule, as they are stored.
    ///
    /// # Errors
    /// Redis is unavailable.
    pub async fn ticks(
        &self,
        key: &ScheduleKey,
        queue: &QueueKey,
    ) -> Result<ScheduleTicks, StoreError> {
        let of_schedule = self.store.keys(self.store.bucket_of(queue));
        let of_schedule = of_schedule.schedule(&key.to_string());
        let mut ticks = redis::cmd("HMGET");
        ticks.arg(of_schedule).arg("tick").arg("ran");
        let (next_ms, last_ms) = self.store.command(&ticks).await?;
        Ok(ScheduleTicks { next_ms, last_ms })
    }

    /// The time on the clock that decides about the ticks of a queue, in ms since 1970.
    ///
    /// # Errors
    /// Redis is unavailable.
    pub async fn now_ms(&self, queue: &QueueKey) -> Result<u64, StoreError> {
        self.store.schedule_now_ms(queue).await
    }

    async fn set_entry(
        &self,
        key: &ScheduleKey,
        value: String,
        expected: Option<TableRevision>,
    ) -> Result<TableSetOutcome, StoreError> {
        let table = RevisionTable {
            key: &keys::schedules(key.namespace.as_str()),
            listed: 0,
            reports: None,
            kind: "schedules",
        };
        let most = self.store.namespace_limits().schedules;
        table
            .set(&self.store, key.name.clone(), value, expected, most)
            .await
    }
}

impl Store {
    /// The schedules of this deployment.
    #[must_use]
    pub fn schedules(&self) -> Schedules {
        let store = self.clone();
        Schedules { store }
    }
}
