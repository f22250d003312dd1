//! The relays in Redis, with their settings, which the native API sets and the admin port lists.

use tidegate_core::v1::relay::{RelayConfig, RelayHealth, RelayStatus};
use tidegate_core::v1::values::Timestamp;
use tidegate_engine::{Engine, EngineError};
use tidegate_store::{RelayKey, StoredRelay, StoredRelayReport, TableRevision};

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

/// The stored report about a relay, if there is any.
pub(crate) async fn relay_report(
    engine: &Engine,
    key: &RelayKey,
) -> Result<Option<StoredRelayReport>, EngineError> {
    let reports = engine.relays.reports(std::slice::from_ref(key)).await?;
    Ok(reports.into_iter().next().flatten())
}

/// The state of a relay with this revision: as `tidegate-relayd` reports it, unless it is paused or the report does not count.
pub(crate) fn relay_status(
    config: &RelayConfig,
    revision: &str,
    report: Option<&StoredRelayReport>,
) -> RelayStatus {
    let of_none = |state, since| RelayStatus {
        state,
        since,
        last_error: None,
    };
    if config.paused {
        return of_none(RelayHealth::Paused, None);
    }
    let Some(report) = report.filter(|report| report.revision == revision) else {
        return of_none(RelayHealth::Unserved, None);
    };
    match serde_json::from_str::<RelayStatus>(&report.status) {
        Ok(status) if report.is_current => status,
        // The last error may say why no process reports it any more.
        last => RelayStatus {
            state: RelayHealth::Unserved,
            since: Some(Timestamp::saturating(report.at_ms)),
            last_error: last.ok().and_then(|last| last.last_error),
        },
    }
}
