//! The table of the quotas of namespaces.

use tidegate_core::{Namespace, NamespaceLimits, keys};

use crate::store::Store;
use crate::table::{Table, TableHash, TableValue};

/// A quota, stored as JSON. Operators set them, so their number is not limited.
impl TableValue for NamespaceLimits {
    type Name = Namespace;

    const HASH: TableHash = TableHash::Shared(keys::NAMESPACES);
    const KIND: &'static str = "quotas";
    const CHANGES_LISTED: u64 = 500;

    fn max(_: NamespaceLimits) -> Option<u64> {
        None
    }

    fn parse(text: &str) -> Result<Self, String> {
        let limits: Self = serde_json::from_str(text).map_err(|error| error.to_string())?;
        limits.check().map_err(|error| error.to_string())?;
        Ok(limits)
    }

    fn to_text(&self) -> Result<String, String> {
        self.check().map_err(|error| error.to_string())?;
        serde_json::to_string(self).map_err(|error| error.to_string())
    }
}

impl Store {
    /// The quotas of namespaces that are stored in this deployment.
    pub fn namespace_quotas(&self) -> Table<NamespaceLimits> {
        Table::new(self)
    }
}
