//! The quotas of namespaces, as this process has read them.
//!
//! Changes in Redis are read once a second, and after each change by this process. While Redis is unavailable the quotas
//! that were read last stay in effect. Before the first read every namespace has the defaults of the settings.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::RwLock;
use tidegate_core::{Namespace, NamespaceLimits};
use tidegate_store::{
    LimitsByNamespace, Row, Store, StoreError, Table, TableChanges, TableRevision, TableRows,
    TableSetOutcome,
};
use tokio::sync::Mutex;
use tokio::time::Instant;

use crate::queue::table_reader::TableReader;

/// The interval at which the whole table is read, which finds changes that bypass its revision, such as the changes of
/// an operator with `redis-cli`.
const WHOLE_INTERVAL: Duration = Duration::from_secs(300);

/// The quotas of all namespaces, and their defaults.
#[derive(Debug)]
pub struct NamespaceTable {
    table: Table<NamespaceLimits>,
    /// The stores of all pools and of the tokens, whose calls apply the limits.
    stores: Vec<Store>,
    known: RwLock<KnownQuotas>,
    /// Held during a read, so that an earlier answer does not replace a later one.
    whole_read_at: Mutex<Option<Instant>>,
    reader: TableReader,
}

#[derive(Debug, Default)]
struct KnownQuotas {
    defaults: NamespaceLimits,
    quotas: HashMap<Namespace, NamespaceLimits>,
    /// The revision up to which all changes are known; `None` = the whole table must be read.
    last: Option<TableRevision>,
}

impl NamespaceTable {
    /// Creates a table in `admin_store` that has not been read yet.
    pub(crate) fn new(admin_store: &Store, pools: Vec<Store>) -> Self {
        let mut stores = pools;
        stores.push(admin_store.clone());
        Self {
            table: admin_store.namespace_quotas(),
            stores,
            known: RwLock::default(),
            whole_read_at: Mutex::default(),
            reader: TableReader::default(),
        }
    }

    /// Sets the limits of namespaces without a quota for all later calls of this process.
    pub fn set_defaults(&self, defaults: NamespaceLimits) {
        let mut known = self.known.write();
        known.defaults = defaults;
        self.share(&known);
    }

    /// The limits of namespaces without a quota.
    pub fn defaults(&self) -> NamespaceLimits {
        self.known.read().defaults
    }

    /// The limits of a namespace. A limit that its quota does not name has its default.
    pub fn limits(&self, namespace: &Namespace) -> NamespaceLimits {
        let known = self.known.read();
        known.limits(namespace)
    }

    /// The namespaces with a quota, in no order.
    pub fn with_quota(&self) -> Vec<Namespace> {
        self.known.read().quotas.keys().cloned().collect()
    }

    /// The quota of a namespace, from Redis. It has revision 0 and no limits if none is stored.
    ///
    /// # Errors
    /// The store failed.
    pub async fn get(&self, namespace: &Namespace) -> Result<Row<NamespaceLimits>, StoreError> {
        Ok(self.table.get(namespace).await?.unwrap_or_default())
    }

    /// All quotas, from Redis.
    ///
    /// # Errors
    /// The store failed.
    pub async fn all(&self) -> Result<TableRows<NamespaceLimits>, StoreError> {
        self.table.all().await
    }

    /// Sets the quota of a namespace, or removes it: here at once, in other processes within a second. With `expected`,
    /// only if that is the revision of the stored one.
    ///
    /// # Errors
    /// The store failed. The quota may be set.
    pub async fn set(
        &self,
        namespace: &Namespace,
        quota: Option<&NamespaceLimits>,
        expected: Option<TableRevision>,
    ) -> Result<TableSetOutcome, StoreError> {
        let outcome = self.table.set(namespace, quota, expected).await?;
        if let TableSetOutcome::Done(_) = outcome
            && self.read().await.is_err()
        {
            // The quota is set, and is read when Redis is available again.
            self.reader.request();
        }
        Ok(outcome)
    }

    /// Reads what has changed.
    ///
    /// # Errors
    /// The store failed. The known quotas stay in effect.
    pub async fn read(&self) -> Result<(), StoreError> {
        let mut whole_read_at = self.whole_read_at.lock().await;
        let is_recent = whole_read_at.is_some_and(|at| at.elapsed() < WHOLE_INTERVAL);
        let last = self.known.read().last.filter(|_| is_recent);
        let Some(changes) = self.table.changes_since(last).await? else {
            return Ok(());
        };
        if changes.is_all {
            *whole_read_at = Some(Instant::now());
        }
        let mut known = self.known.write();
        known.apply(changes);
        self.share(&known);
        Ok(())
    }

    /// Keeps the table current. Never returns.
    pub(crate) async fn follow(&self) {
        loop {
            let read = self.read().await;
            self.reader.wait(read).await;
        }
    }

    fn share(&self, known: &KnownQuotas) {
        let quotas = known.quotas.keys();
        let limits = Arc::new(LimitsByNamespace {
            defaults: known.defaults,
            of_quotas: quotas
                .map(|namespace| (namespace.clone(), known.limits(namespace)))
                .collect(),
        });
        for store in &self.stores {
            store.set_namespace_limits(Arc::clone(&limits));
        }
    }
}

impl KnownQuotas {
    fn limits(&self, namespace: &Namespace) -> NamespaceLimits {
        let quota = self.quotas.get(namespace).copied().unwrap_or_default();
        quota.or(self.defaults)
    }

    fn apply(&mut self, changes: TableChanges<NamespaceLimits>) {
        self.last = Some(changes.last);
        if changes.is_all {
            self.quotas.clear();
        }
        for (namespace, row) in changes.by_name {
            match row.map(|row| row.value) {
                Some(Ok(quota)) => drop(self.quotas.insert(namespace, quota)),
                Some(Err(damaged)) => {
                    let text = &damaged.text;
                    tracing::warn!(%namespace, text, "the stored quota of a namespace cannot be read, the defaults apply: set the quota again");
                    self.quotas.remove(&namespace);
                }
                None => drop(self.quotas.remove(&namespace)),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn changes(rows: &[(&str, Option<u64>)], is_all: bool) -> TableChanges<NamespaceLimits> {
        let row = |jobs: Option<u64>| {
            let quota = NamespaceLimits {
                jobs: Some(jobs?),
                ..NamespaceLimits::default()
            };
            let revision = "1.00000000".parse().ok();
            let value = Ok(quota);
            Some(Row { revision, value })
        };
        let rows = rows.iter();
        let rows = rows.map(|(name, jobs)| (Namespace::try_from(*name).unwrap(), row(*jobs)));
        TableChanges {
            by_name: rows.collect(),
            last: TableRevision::default(),
            is_all,
        }
    }

    #[test]
    fn a_quota_overrides_the_defaults_until_it_is_removed() {
        let mut known = KnownQuotas::default();
        known.defaults.jobs = Some(9);
        known.defaults.queues = Some(7);
        let limits = |known: &KnownQuotas, name| {
            let limits = known.limits(&Namespace::try_from(name).unwrap());
            (limits.jobs.unwrap(), limits.queues.unwrap())
        };
        known.apply(changes(&[("a", Some(1)), ("b", Some(2))], true));
        assert_eq!(limits(&known, "a"), (1, 7));
        assert_eq!(limits(&known, "c"), (9, 7));
        known.apply(changes(&[("a", None), ("b", Some(3))], false));
        assert_eq!(limits(&known, "a"), (9, 7));
        assert_eq!(limits(&known, "b"), (3, 7));
        known.apply(changes(&[], true));
        assert_eq!(limits(&known, "b"), (9, 7));
    }
}
