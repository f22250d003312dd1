//! The states of relays, as daemons report them.

use tidegate_core::v1::relay::{RelayConfig, RelayHealth, RelayStatus};
use tidegate_core::v1::values::Timestamp;
use tidegate_engine::{Engine, EngineError};
use tidegate_store::{NamespacedName, StoredRelayReport};

/// The stored report about a relay, if there is any.
pub(crate) async fn relay_report(
    engine: &Engine,
    key: &NamespacedName,
) -> Result<Option<StoredRelayReport>, EngineError> {
    let reports = engine.relays.reports(std::slice::from_ref(key)).await?;
    Ok(reports.into_iter().next().flatten())
}

/// The state of a relay with this revision: as `tidegate-relayd` reports it, unless it is paused or the report does not
/// count.
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
