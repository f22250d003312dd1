//! The table of relays.

use tidegate_core::v1::relay::RelayConfig;
use tidegate_core::{NamespaceLimits, keys};

use crate::store::Store;
use crate::table::{NamespacedName, Table, TableHash, TableValue};

/// Stored as JSON, with secrets.
impl TableValue for RelayConfig {
    type Name = NamespacedName;

    const HASH: TableHash = TableHash::Shared(keys::RELAYS);
    const KIND: &'static str = "relays";
    const REPORTS: Option<&'static str> = Some(keys::RELAY_REPORTS);

    fn max(limits: NamespaceLimits) -> Option<u64> {
        limits.relays
    }

    /// The error of the parser may repeat a secret, so it is not the reason.
    fn parse(text: &str) -> Result<Self, String> {
        serde_json::from_str(text).map_err(|_| "it is damaged, or of a later release".to_owned())
    }

    fn to_text(&self) -> Result<String, String> {
        serde_json::to_string(self).map_err(|error| error.to_string())
    }
}

impl Store {
    /// The relays that are stored in this deployment.
    pub fn relays(&self) -> Table<RelayConfig> {
        Table::new(self)
    }
}
