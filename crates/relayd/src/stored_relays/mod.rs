//! Relays that are set through the API: read from its admin port each second, and run like the relays of the settings.

mod admin_port;
mod allowed_hosts;
mod assembly;
mod name;
mod reports;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use serde_json::Value;
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;

use crate::config::StoredRelaysConfig;
use crate::relay_set::RelaySet;
use admin_port::{AdminPort, ReadRelays};
use assembly::StoredRelayBuilder;
use name::namespace_of;
use reports::ReportState;

/// How often they are read: so soon a change is in effect.
const READ_INTERVAL: Duration = Duration::from_secs(1);

/// The relays that are set through the API.
pub(crate) struct StoredRelays {
    admin_port: AdminPort,
    builder: StoredRelayBuilder,
    reports: ReportState,
}

impl StoredRelays {
    /// `None` if the settings name no API.
    ///
    /// # Errors
    /// A setting is missing or not valid; the error begins with its name.
    pub(crate) fn new(config: &StoredRelaysConfig) -> Result<Option<Self>, String> {
        if config.url.is_empty() && config.admin.url.is_empty() {
            return Ok(None);
        }
        Ok(Some(Self {
            admin_port: AdminPort::new(&config.admin)?,
            builder: StoredRelayBuilder::new(config)?,
            reports: ReportState::new(),
        }))
    }

    /// Keeps the relays in the set current until the stop. While they cannot be read, they run as last read.
    pub(crate) async fn follow(mut self, set: Arc<RelaySet>, stop: CancellationToken) {
        let (mut has_failed, mut has_not_reported) = (false, false);
        while let Some(read) = stop.run_until_cancelled(self.admin_port.read()).await {
            match read {
                Ok(relays) => {
                    if std::mem::take(&mut has_failed) {
                        tracing::info!("the relays of the API can be read again");
                    }
                    if let Some(relays) = relays {
                        self.define(&set, relays);
                    }
                    let reporting = stop.run_until_cancelled(self.report(&set)).await;
                    if let Some(Err(error)) = &reporting
                        && !has_not_reported
                    {
                        tracing::warn!(
                            error,
                            "failed to report the states of relays to the API; retrying each second"
                        );
                    }
                    has_not_reported = matches!(reporting, Some(Err(_)));
                }
                Err(error) => {
                    if !std::mem::replace(&mut has_failed, true) {
                        tracing::warn!(
                            error,
                            "failed to read the relays of the API; they run as last read, retrying each second"
                        );
                    }
                }
            }
            stop.run_until_cancelled(sleep(READ_INTERVAL)).await;
        }
    }

    async fn report(&mut self, set: &RelaySet) -> Result<(), String> {
        for reports in self.reports.due(set) {
            self.admin_port.report(&reports).await?;
            self.reports.taken(reports);
        }
        Ok(())
    }

    fn define(&mut self, set: &Arc<RelaySet>, read: ReadRelays) {
        self.reports.revisions = read.revisions;
        // A relay that the API cannot read runs as last read.
        let relays = read.definitions.into_iter().map(|(name, definition)| {
            let definition = definition.or_else(|| set.definition(&name));
            (name, definition.unwrap_or(Value::Null))
        });
        let relays: BTreeMap<String, Value> = relays
            .filter(|(_, definition)| definition["paused"] != true)
            .collect();
        let is_stored = |name: &str| namespace_of(name).is_some();
        set.define(is_stored, &relays, |name, definition| {
            self.builder.build(name, definition)
        });
    }
}
