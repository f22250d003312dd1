//! Reports of the states of relays to the API, which shows them to those who set the relays.

use std::collections::BTreeMap;
use std::time::Duration;

use tidegate::api::relay::{RelayReport, RelayReports};
use tokio::time::Instant;

use crate::relay_set::RelaySet;

/// How often all are reported. The API shows a relay as not served after three times as long.
const REPEAT_INTERVAL: Duration = Duration::from_secs(5);

/// The most relays of a request.
const RELAYS_PER_REQUEST: usize = 100;

/// The reports that were sent, and the reports to send.
pub(super) struct ReportState {
    process: u64,
    /// The revisions of the relays, by name.
    pub(super) revisions: BTreeMap<String, String>,
    reported: BTreeMap<String, RelayReport>,
    all_reported_at: Option<Instant>,
}

impl ReportState {
    pub(super) fn new() -> Self {
        Self {
            process: rand::random(),
            revisions: BTreeMap::new(),
            reported: BTreeMap::new(),
            all_reported_at: None,
        }
    }

    /// The reports that are due: changed ones, and all from time to time.
    pub(super) fn due(&mut self, set: &RelaySet) -> Vec<RelayReports> {
        let repeated_at = self.all_reported_at;
        if repeated_at.is_none_or(|at| at.elapsed() >= REPEAT_INTERVAL) {
            self.reported.clear();
            self.all_reported_at = Some(Instant::now());
        }
        let revisions = self.revisions.iter();
        let reports = revisions.filter_map(|(relay, revision)| {
            let report = RelayReport {
                relay: relay.clone(),
                revision: revision.clone(),
                status: set.status(relay)?,
            };
            (self.reported.get(relay) != Some(&report)).then_some(report)
        });
        let reports: Vec<RelayReport> = reports.collect();
        let requests = reports.chunks(RELAYS_PER_REQUEST);
        requests
            .map(|items| RelayReports {
                process: self.process,
                items: items.to_vec(),
            })
            .collect()
    }

    /// The API has taken these.
    pub(super) fn taken(&mut self, reports: RelayReports) {
        let items = reports.items.into_iter();
        let named = items.map(|report| (report.relay.clone(), report));
        self.reported.extend(named);
    }
}
