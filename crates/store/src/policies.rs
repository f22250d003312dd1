//! The table of policies.

use tidegate_core::{NamespaceLimits, Policy, QueueKey, keys};

use crate::error::StoreError;
use crate::store::Store;
use crate::table::{Table, TableHash, TableValue};

/// A queue without an entry has the default policy, which is not stored.
impl TableValue for Policy {
    type Name = QueueKey;

    const HASH: TableHash = TableHash::Shared(keys::POLICIES);
    const KIND: &'static str = "policies";
    const CHANGES_LISTED: u64 = 500;

    fn max(limits: NamespaceLimits) -> Option<u64> {
        limits.policies
    }

    fn parse(text: &str) -> Result<Self, String> {
        text.parse::<Self>().map_err(|error| error.to_string())
    }

    fn to_text(&self) -> Result<String, String> {
        self.check().map_err(|error| error.to_string())?;
        Ok(match *self == Self::default() {
            true => String::new(),
            false => self.to_string(),
        })
    }
}

impl Table<Policy> {
    /// The time on the clock of the server that has the table, in ms since 1970, at some moment of this call.
    ///
    /// # Errors
    /// Redis is unavailable.
    pub async fn now_ms(&self) -> Result<u64, StoreError> {
        self.store.server_now_ms(keys::POLICIES).await
    }
}

impl Store {
    /// The policies of the queues of this deployment.
    pub fn policies(&self) -> Table<Policy> {
        Table::new(self)
    }
}
