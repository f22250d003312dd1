//! The table of limits that queues share.

use tidegate_core::{NamespaceLimits, Rate, keys};

use crate::store::Store;
use crate::table::{NamespacedName, Table, TableHash, TableValue};

impl TableValue for Rate {
    type Name = NamespacedName;

    const HASH: TableHash = TableHash::Shared(keys::QUEUE_LIMITS);
    const KIND: &'static str = "limits";
    const CHANGES_LISTED: u64 = 500;

    fn max(limits: NamespaceLimits) -> Option<u64> {
        limits.limits
    }

    fn parse(text: &str) -> Result<Self, String> {
        text.parse::<Self>().map_err(|error| error.to_string())
    }

    fn to_text(&self) -> Result<String, String> {
        self.check().map_err(|error| error.to_string())?;
        Ok(self.to_string())
    }
}

impl Store {
    /// The limits that queues of this deployment share.
    pub fn queue_limits(&self) -> Table<Rate> {
        Table::new(self)
    }
}
