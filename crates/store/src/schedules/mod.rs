//! Schedules. Their definitions are in a table with revisions for each namespace, as relays are: the table is the
//! truth. The bucket of the queue of a schedule has its next tick, with the revision that it was calculated for: a hint
//! to look at the table. `docs/decisions/0063-schedules.md`.

mod definition;

use futures_util::future::try_join_all;
use redis::Cmd;
use tidegate_core::{Namespace, NamespaceLimits, QueueKey, QueueName, keys};

pub use self::definition::{
    SCHEDULE_ATTRIBUTE, ScheduleDefinition, ScheduleTimes, ScheduledJob, schedule_job_key,
};
use crate::error::StoreError;
use crate::store::Store;
use crate::table::{
    NamespacedName, Row, Table, TableHash, TableRevision, TableSetOutcome, TableValue,
};

/// About how many definitions one call reads. With payloads of 16 KiB they are 400 kB.
const DEFINITIONS_PER_CALL: usize = 10;

/// A page of definitions ends before it has more than this many bytes.
const PAGE_BYTES_MAX: usize = 1024 * 1024;

impl TableValue for ScheduleDefinition {
    type Name = NamespacedName;

    const HASH: TableHash = TableHash::OfNamespace(keys::schedules);
    const KIND: &'static str = "schedules";
    const ENTRIES_PER_CALL: u64 = DEFINITIONS_PER_CALL as u64;

    fn max(limits: NamespaceLimits) -> Option<u64> {
        limits.schedules
    }

    fn parse(text: &str) -> Result<Self, String> {
        serde_json::from_str(text).map_err(|error| error.to_string())
    }

    fn to_text(&self) -> Result<String, String> {
        serde_json::to_string(self).map_err(|error| error.to_string())
    }
}

impl Row<ScheduleDefinition> {
    /// The queue; `None` if the definition is damaged.
    pub fn queue(&self, namespace: &Namespace) -> Option<QueueKey> {
        let definition = self.value.as_ref().ok()?;
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
    pub schedules: Vec<(NamespacedName, Row<ScheduleDefinition>)>,
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
    /// The definitions, which are set and removed together with their ticks.
    pub(crate) table: Table<ScheduleDefinition>,
}

impl Schedules {
    const fn store(&self) -> &Store {
        &self.table.store
    }

    /// How many schedules a namespace has.
    ///
    /// # Errors
    /// Redis is unavailable.
    pub async fn count_of(&self, namespace: &Namespace) -> Result<u64, StoreError> {
        self.table.count_of(namespace).await
    }

    /// The schedule with this name, if it exists.
    ///
    /// # Errors
    /// Redis is unavailable.
    pub async fn get(
        &self,
        key: &NamespacedName,
    ) -> Result<Option<Row<ScheduleDefinition>>, StoreError> {
        self.table.get(key).await
    }

    /// Several schedules, in their order; `None` where there is none. Schedules of one namespace are read together.
    ///
    /// # Errors
    /// Redis is unavailable.
    pub async fn get_many(
        &self,
        keys: &[&NamespacedName],
    ) -> Result<Vec<Option<Row<ScheduleDefinition>>>, StoreError> {
        self.table.get_many(keys).await
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
        let fields = Cmd::hkeys(keys::schedules(namespace.as_str()));
        let fields: Vec<Vec<u8>> = self.store().large_command(&fields).await?;
        let prefix = format!("{namespace}/");
        let names = fields
            .iter()
            .filter_map(|field| Table::<ScheduleDefinition>::name(&prefix, field));
        let mut names: Vec<NamespacedName> = names
            .filter(|key| after.is_none_or(|after| *key.name > *after))
            .collect();
        names.sort_unstable();
        let (mut schedules, mut bytes) = (Vec::new(), 0);
        let within: Vec<&NamespacedName> = names.iter().take(limit).collect();
        for names in within.chunks(DEFINITIONS_PER_CALL) {
            let texts = self.table.texts(names).await?;
            for (name, text) in names.iter().zip(texts) {
                // A schedule that was removed meanwhile is left out.
                let Some(text) = text else { continue };
                bytes += text.len();
                if bytes > PAGE_BYTES_MAX && !schedules.is_empty() {
                    let has_more = true;
                    return Ok(SchedulePage {
                        schedules,
                        has_more,
                    });
                }
                schedules.push(((*name).clone(), Row::read(&text)));
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
        key: &NamespacedName,
        queue: &QueueKey,
        definition: &ScheduleDefinition,
        expected: Option<TableRevision>,
    ) -> Result<TableSetOutcome, StoreError> {
        // If this process dies behind the next step, a pump finds the definition.
        self.store().schedule_check(key, queue).await?;
        let outcome = self.table.set(key, Some(definition), expected).await?;
        if let TableSetOutcome::Done(revision) = outcome {
            let calls = self
                .store()
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
        key: &NamespacedName,
        queue: Option<&QueueKey>,
        expected: Option<TableRevision>,
    ) -> Result<TableSetOutcome, StoreError> {
        let outcome = self.table.set(key, None, expected).await?;
        if let (TableSetOutcome::Done(_), Some(queue)) = (outcome, queue) {
            let expected = expected.unwrap_or_default();
            self.store().schedule_remove(key, queue, expected).await?;
        }
        Ok(outcome)
    }

    /// The next tick of a schedule, in ms since 1970, as it is stored; `None` = it has none.
    ///
    /// # Errors
    /// Redis is unavailable.
    pub async fn next_ms(
        &self,
        key: &NamespacedName,
        queue: &QueueKey,
    ) -> Result<Option<u64>, StoreError> {
        let keys = self.store().keys(self.store().bucket_of(queue));
        let tick = Cmd::hget(keys.schedule(&key.to_string()), "tick");
        self.store().command(&tick).await
    }

    /// The next ticks of several schedules, in their order. They are read together: it takes as long as reading one.
    ///
    /// # Errors
    /// Redis is unavailable.
    pub async fn all_next_ms(
        &self,
        schedules: &[(&NamespacedName, &QueueKey)],
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
        key: &NamespacedName,
        queue: &QueueKey,
    ) -> Result<ScheduleTicks, StoreError> {
        let of_schedule = self.store().keys(self.store().bucket_of(queue));
        let of_schedule = of_schedule.schedule(&key.to_string());
        let mut ticks = redis::cmd("HMGET");
        ticks.arg(of_schedule).arg("tick").arg("ran");
        let (next_ms, last_ms) = self.store().command(&ticks).await?;
        Ok(ScheduleTicks { next_ms, last_ms })
    }

    /// The time on the clock that decides about the ticks of a queue, in ms since 1970.
    ///
    /// # Errors
    /// Redis is unavailable.
    pub async fn now_ms(&self, queue: &QueueKey) -> Result<u64, StoreError> {
        self.store().schedule_now_ms(queue).await
    }
}

impl Store {
    /// The schedules of this deployment.
    pub fn schedules(&self) -> Schedules {
        let table = Table::new(self);
        Schedules { table }
    }
}
