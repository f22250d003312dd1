//! Setting the policy of a queue.

use tidegate_core::{Policy, QueueKey, keys};

use super::table::{PAGE, Policies};
use crate::error::StoreError;
use crate::table_revision::TableRevision;
use crate::table_set::{RevisionTable, TableSetOutcome};

const TABLE: RevisionTable<'static> = RevisionTable {
    key: keys::POLICIES,
    listed: PAGE,
    reports: None,
    kind: "policies",
};

/// The outcome of setting a policy.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[must_use]
pub enum PolicySetOutcome {
    /// The policy is set. Its revision is 0 if it equals the defaults, which are not stored.
    Done(TableRevision),
    /// The stored policy has another revision than the expected one; `None` if it cannot be read. Nothing changed.
    VersionMismatch(Option<TableRevision>),
}

impl Policies {
    /// Sets the policy of a queue, or removes it if it equals the defaults. With `expected`, only if that is the
    /// revision of the stored policy. A queue need not exist, and is not created.
    ///
    /// # Errors
    /// - [`StoreError::Corrupt`]: the policy is invalid; nothing was sent. Callers check it before.
    /// - [`StoreError::NamespaceFull`]: the namespace has as many policies as it may; nothing changed.
    /// - Redis is unavailable; the change may be executed nevertheless, even later.
    pub async fn set(
        &self,
        queue: &QueueKey,
        policy: &Policy,
        expected: Option<TableRevision>,
    ) -> Result<PolicySetOutcome, StoreError> {
        let invalid = |error| StoreError::corrupt(format!("invalid policy of {queue}: {error}"));
        policy.check().map_err(invalid)?;
        let text = match *policy == Policy::default() {
            true => String::new(),
            false => policy.to_string(),
        };
        let most = self.store.namespace_limits().policies;
        let set = TABLE.set(&self.store, queue.to_string(), text, expected, most);
        match set.await? {
            TableSetOutcome::Done(revision) => Ok(PolicySetOutcome::Done(revision)),
            TableSetOutcome::VersionMismatch(revision) => {
                Ok(PolicySetOutcome::VersionMismatch(revision))
            }
        }
    }
}
