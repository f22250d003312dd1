//! Reading what has changed in the table of policies.
//!
//! The table lists the last [`PAGE`] changes. A reader that knows an older revision reads the whole table, page by
//! page. So does a reader whose last revision is not in the list: a failover has lost changes that it has read.

use std::collections::{BTreeMap, BTreeSet};

use redis::Cmd;
use tidegate_core::{QueueKey, keys};

use super::stored::StoredPolicy;
use super::table::{LAST_REVISION, PAGE, Policies};
use crate::error::StoreError;
use crate::table_revision::TableRevision;

/// The changes of the table since a revision.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PolicyChanges {
    /// Nothing.
    None,
    /// These queues. An entry of a queue whose policy was removed [is none](StoredPolicy::is_none).
    Some {
        /// The entries of the queues, at least as new as `last`.
        entries: BTreeMap<QueueKey, StoredPolicy>,
        /// The last revision of the table.
        last: TableRevision,
    },
    /// Anything: this is the whole table.
    All {
        /// All entries, at least as new as `last`.
        entries: BTreeMap<QueueKey, StoredPolicy>,
        /// The last revision of the table; 0 if it cannot be read.
        last: TableRevision,
    },
}

impl Policies {
    /// Reads what has changed since the revision `known`; the whole table if that is `None`. One small command if
    /// nothing has changed. Fields that name no queue are skipped.
    ///
    /// # Errors
    /// Redis is unavailable, or the table is not a hash.
    pub async fn changes_since(
        &self,
        known: Option<TableRevision>,
    ) -> Result<PolicyChanges, StoreError> {
        let last = Cmd::hget(keys::POLICIES, LAST_REVISION);
        let last: Option<String> = self.store.command(&last).await?;
        // A table without a readable last revision has one again after the next change.
        let last = last.and_then(|text| text.parse().ok());
        let last: TableRevision = last.unwrap_or_default();
        if let Some(known) = known {
            if known == last {
                return Ok(PolicyChanges::None);
            }
            if let Some(changed) = self.changed_between(known, last).await? {
                let entries = self.entries(changed).await?;
                return Ok(PolicyChanges::Some { entries, last });
            }
        }
        let entries = self.all().await?;
        Ok(PolicyChanges::All { entries, last })
    }

    /// The queues that have changed after `known` up to `last`; `None` if the list of changes does not have them all,
    /// or `known` is not one of them.
    async fn changed_between(
        &self,
        known: TableRevision,
        last: TableRevision,
    ) -> Result<Option<BTreeSet<QueueKey>>, StoreError> {
        let is_listed = last.number.saturating_sub(known.number) < PAGE;
        if known.is_none() || known.number >= last.number || !is_listed {
            return Ok(None);
        }
        let fields = (known.number..=last.number).map(|number| format!("#{number}"));
        let changes: Vec<Option<String>> = self.fields(fields.collect()).await?;
        let mut queues = BTreeSet::new();
        for (at, change) in changes.iter().enumerate() {
            let change = change.as_deref().and_then(|change| change.split_once(' '));
            let Some((tag, name)) = change else {
                return Ok(None);
            };
            if at == 0 {
                if tag != format!("{:08x}", known.tag) {
                    return Ok(None);
                }
            } else if let Ok(queue) = QueueKey::try_from(name) {
                queues.insert(queue);
            }
        }
        Ok(Some(queues))
    }

    async fn entries(
        &self,
        queues: BTreeSet<QueueKey>,
    ) -> Result<BTreeMap<QueueKey, StoredPolicy>, StoreError> {
        let fields = queues.iter().map(QueueKey::to_string);
        let texts = self.fields(fields.collect()).await?;
        let entries = texts.into_iter().map(StoredPolicy::parse);
        Ok(queues.into_iter().zip(entries).collect())
    }

    async fn fields(&self, names: Vec<String>) -> Result<Vec<Option<String>>, StoreError> {
        let fields = Cmd::hmget(keys::POLICIES, names);
        self.store.command(&fields).await
    }

    /// The whole table, page by page. Policies that change meanwhile may be missing; they have a later revision.
    async fn all(&self) -> Result<BTreeMap<QueueKey, StoredPolicy>, StoreError> {
        let mut entries = BTreeMap::new();
        let mut cursor = 0_u64;
        loop {
            let mut page = redis::cmd("HSCAN");
            page.arg(keys::POLICIES).arg(cursor).arg("COUNT").arg(PAGE);
            let (next, fields): (u64, Vec<(String, String)>) = self.store.command(&page).await?;
            for (name, text) in fields {
                if let Ok(queue) = QueueKey::try_from(name.as_str()) {
                    entries.insert(queue, StoredPolicy::parse(Some(text)));
                }
            }
            if next == 0 {
                return Ok(entries);
            }
            cursor = next;
        }
    }
}
