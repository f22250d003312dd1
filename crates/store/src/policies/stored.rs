//! An entry of the table of policies.

use tidegate_core::Policy;

use crate::table_revision::TableRevision;

/// The policy of a queue as it is stored.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct StoredPolicy {
    /// The policy in effect: the defaults if none is stored, or if the stored one cannot be read.
    pub policy: Policy,
    /// The revision of the stored policy; 0 if none is stored, or if it cannot be read.
    pub revision: TableRevision,
    /// The text of a stored policy that cannot be read.
    pub unreadable: Option<String>,
}

impl StoredPolicy {
    /// Reads an entry: a revision, a space, and the text of the policy. `None` = there is no entry.
    pub(super) fn parse(text: Option<String>) -> Self {
        let Some(text) = text else {
            return Self::default();
        };
        let parts = text.split_once(' ');
        let read = parts
            .and_then(|(revision, policy)| Some((revision.parse().ok()?, policy.parse().ok()?)));
        match read {
            Some((revision, policy)) => Self {
                policy,
                revision,
                unreadable: None,
            },
            None => Self {
                unreadable: Some(text),
                ..Self::default()
            },
        }
    }

    /// Whether there is no entry.
    #[must_use]
    pub fn is_none(&self) -> bool {
        self.revision.is_none() && self.unreadable.is_none()
    }
}
