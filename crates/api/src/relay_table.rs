//! The relays in Redis, with their settings: what the native API sets and the admin port lists.

use tidegate_api_types::relay::RelayConfig;
use tidegate_engine::{Engine, EngineError};
use tidegate_store::{RelayKey, StoredRelay, TableRevision};

/// A relay with its settings, which have secrets.
#[derive(Debug, Clone)]
pub(crate) struct ReadRelay {
    /// The revision; `None` if the entry is damaged.
    pub(crate) revision: Option<TableRevision>,
    /// The settings, or why they cannot be read.
    pub(crate) config: Result<RelayConfig, UnreadableRelay>,
}

/// The stored settings are damaged, or of a later release. They are not repeated: they have secrets.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error(
    "the stored relay is damaged, or of a later release; replace it with PUT, with its secrets"
)]
pub(crate) struct UnreadableRelay;

impl From<&StoredRelay> for ReadRelay {
    fn from(stored: &StoredRelay) -> Self {
        let config = serde_json::from_str(&stored.value).map_err(|_| UnreadableRelay);
        Self {
            revision: stored.revision,
            config: config
                .and_then(|config| stored.revision.map(|_| config).ok_or(UnreadableRelay)),
        }
    }
}

impl ReadRelay {
    /// The relay with this name, if there is one.
    pub(crate) async fn find(engine: &Engine, key: &RelayKey) -> Result<Option<Self>, EngineError> {
        let stored = engine.relays.get(key).await?;
        Ok(stored.as_ref().map(Self::from))
    }
}
