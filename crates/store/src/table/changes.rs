//! Reading the changes of a table.
//!
//! A table of policies lists its last changes. A reader that knows an older revision reads the whole table, page by
//! page. So does a reader whose last revision is not in the list: a failover has lost changes that it has read.

use std::collections::{BTreeMap, BTreeSet};

use redis::Cmd;

use super::entries::{Field, LAST_REVISION, Table};
use super::revision::TableRevision;
use super::row::Row;
use super::value::{TableHash, TableValue};
use crate::error::StoreError;

/// All entries of a table.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TableRows<T: TableValue> {
    /// The entries, at least as new as `last`.
    pub by_name: BTreeMap<T::Name, Row<T>>,
    /// The last revision of the table, which changes with each entry; 0 if there was none, or it cannot be read.
    pub last: TableRevision,
}

/// The changes of a table since a revision.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TableChanges<T: TableValue> {
    /// The entries that may have changed, at least as new as `last`; `None` = it is removed.
    pub by_name: BTreeMap<T::Name, Option<Row<T>>>,
    /// The last revision of the table; 0 if it cannot be read.
    pub last: TableRevision,
    /// Whether the table has no other entries.
    pub is_all: bool,
}

impl<T: TableValue> From<TableRows<T>> for TableChanges<T> {
    fn from(rows: TableRows<T>) -> Self {
        let by_name = rows.by_name.into_iter();
        Self {
            by_name: by_name.map(|(name, row)| (name, Some(row))).collect(),
            last: rows.last,
            is_all: true,
        }
    }
}

impl<T: TableValue> Table<T> {
    /// The hash with all entries. For a value whose table is one of each namespace, this does not compile.
    const SHARED: &'static str = match T::HASH {
        TableHash::Shared(hash) => hash,
        TableHash::OfNamespace(_) => panic!("each namespace has its own table"),
    };

    /// The last revision of the table.
    ///
    /// # Errors
    /// Redis is unavailable.
    pub async fn last_revision(&self) -> Result<TableRevision, StoreError> {
        let last = Cmd::hget(Self::SHARED, LAST_REVISION);
        let last: Option<Vec<u8>> = self.store.command(&last).await?;
        let last = last.and_then(|text| str::from_utf8(&text).ok()?.parse().ok());
        // A table without a readable last revision has one again after the next change.
        Ok(last.unwrap_or_default())
    }

    /// All entries. Fields that name none are skipped. A table that lists its changes is read page by page: an entry
    /// that changes meanwhile may be missing, and has a later revision than the last one. Another table is read in one
    /// step, since its readers do not read it again before its next change.
    ///
    /// # Errors
    /// Redis is unavailable, or the table is not a hash.
    pub async fn all(&self) -> Result<TableRows<T>, StoreError> {
        let last = self.last_revision().await?;
        let by_name = match T::CHANGES_LISTED {
            0 => {
                let all = Cmd::hgetall(Self::SHARED);
                let fields: Vec<Field> = self.store.large_command(&all).await?;
                Self::rows("", &fields)
            }
            _ => self.scan(Self::SHARED, "*", "").await?,
        };
        Ok(TableRows { by_name, last })
    }

    /// Reads the changes since the revision `known`; the whole table if that is `None`. Returns `None` if nothing has
    /// changed, after one small command.
    ///
    /// # Errors
    /// Redis is unavailable, or the table is not a hash.
    pub async fn changes_since(
        &self,
        known: Option<TableRevision>,
    ) -> Result<Option<TableChanges<T>>, StoreError> {
        if let Some(known) = known {
            let last = self.last_revision().await?;
            if known == last {
                return Ok(None);
            }
            if let Some(names) = self.changed_between(known, last).await? {
                let names: Vec<&T::Name> = names.iter().collect();
                let rows = self.get_many(&names).await?;
                return Ok(Some(TableChanges {
                    by_name: names.into_iter().cloned().zip(rows).collect(),
                    last,
                    is_all: false,
                }));
            }
        }
        Ok(Some(self.all().await?.into()))
    }

    /// The entries that have changed after `known` up to `last`; `None` if the list of changes does not have them all,
    /// or `known` is not one of them.
    async fn changed_between(
        &self,
        known: TableRevision,
        last: TableRevision,
    ) -> Result<Option<BTreeSet<T::Name>>, StoreError> {
        let is_listed = last.number.saturating_sub(known.number) < T::CHANGES_LISTED;
        if known.is_none() || known.number >= last.number || !is_listed {
            return Ok(None);
        }
        let fields = (known.number..=last.number).map(|number| format!("#{number}"));
        let fields: Vec<String> = fields.collect();
        let fields: Vec<&str> = fields.iter().map(String::as_str).collect();
        let changes = self.fields(Self::SHARED, &fields).await?;
        let mut names = BTreeSet::new();
        for (at, change) in changes.iter().enumerate() {
            let change = change
                .as_deref()
                .and_then(|change| str::from_utf8(change).ok());
            let Some((tag, name)) = change.and_then(|change| change.split_once(' ')) else {
                return Ok(None);
            };
            if at > 0 {
                names.extend(T::Name::try_from(name).ok());
            } else if tag != format!("{:08x}", known.tag) {
                return Ok(None);
            }
        }
        Ok(Some(names))
    }
}
