//! The limits that queues of a deployment share. They are read together with the policies that name them.

use tidegate_core::{Namespace, QueueKey, Rate};
use tidegate_store::{NamespacedName, Row, StoreError, TableRevision, TableSetOutcome};

use super::PolicyTable;

/// The outcome of removing a limit.
#[derive(Debug, Clone, PartialEq, Eq)]
#[must_use]
pub enum LimitRemoved {
    /// No policy names the limit. Whether it is removed.
    Set(TableSetOutcome),
    /// The policy of this queue names the limit. Nothing changed.
    InUse(QueueKey),
}

impl PolicyTable {
    /// A limit, from Redis.
    ///
    /// # Errors
    /// The store failed.
    pub async fn limit(&self, name: &NamespacedName) -> Result<Option<Row<Rate>>, StoreError> {
        self.limits.get(name).await
    }

    /// How many limits a namespace has, in Redis.
    pub(crate) async fn count_limits_of(&self, namespace: &Namespace) -> Result<u64, StoreError> {
        self.limits.count_of(namespace).await
    }

    /// The limits of these names that can be read, as this process knows them.
    pub fn limits_of(&self, namespace: &Namespace) -> Vec<(NamespacedName, Row<Rate>)> {
        self.known.read().limits_of(namespace)
    }

    /// Sets a limit: here at once, in other processes within a second. With `expected`, only if that is the revision
    /// of the stored one.
    ///
    /// # Errors
    /// The store failed. The limit may be set.
    pub async fn set_limit(
        &self,
        name: &NamespacedName,
        rate: Rate,
        expected: Option<TableRevision>,
    ) -> Result<TableSetOutcome, StoreError> {
        let outcome = self.limits.set(name, Some(&rate), expected).await?;
        self.read_after(outcome).await;
        Ok(outcome)
    }

    /// Removes a limit, unless a policy names it. A policy that another process sets at the same moment may name it
    /// nevertheless; it limits nothing then.
    ///
    /// # Errors
    /// The store failed. The limit may be removed.
    pub async fn remove_limit(
        &self,
        name: &NamespacedName,
        expected: Option<TableRevision>,
    ) -> Result<LimitRemoved, StoreError> {
        self.read().await?;
        let in_use = self.known.read().queue_with_limit(name);
        if let Some(queue) = in_use {
            return Ok(LimitRemoved::InUse(queue));
        }
        let outcome = self.limits.set(name, None, expected).await?;
        self.read_after(outcome).await;
        Ok(LimitRemoved::Set(outcome))
    }
}
