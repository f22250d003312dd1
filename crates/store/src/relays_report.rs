//! The reports of daemons about relays. Hints for people: no job depends on them.

use std::time::Duration;

use tidegate_core::keys;
use tidegate_core::v1::relay::RelayConfig;

use crate::error::StoreError;
use crate::script::{LazyScript, script};
use crate::table::{NamespacedName, Table};

static RELAYS_REPORT: LazyScript = script!("relays_report");

/// How long a report counts. Daemons repeat theirs at least each third of it.
pub const RELAY_REPORT_TTL: Duration = Duration::from_secs(15);

/// The most relays of one call, which holds Redis meanwhile.
const RELAYS_PER_CALL: usize = 100;

/// A report about a relay, as a daemon makes it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewRelayReport {
    /// `namespace/relay`.
    pub relay: String,
    /// The revision of the relay that the daemon has.
    pub revision: String,
    /// A worse state has a greater one. Of the reports of several daemons the worst is kept.
    pub rank: u8,
    /// The status, as JSON that this crate does not read.
    pub status: String,
}

/// A report about a relay, as it is stored.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoredRelayReport {
    /// The revision of the relay that the daemon had.
    pub revision: String,
    /// When it was made, in ms since 1970 on the clock of Redis.
    pub at_ms: u64,
    /// Whether it still counts.
    pub is_current: bool,
    /// The status, as JSON.
    pub status: String,
}

impl StoredRelayReport {
    /// `None` if it cannot be read.
    fn read(text: &[u8], now_ms: u64) -> Option<Self> {
        let mut parts = std::str::from_utf8(text).ok()?.splitn(5, ' ');
        let (revision, at_ms) = (parts.next()?, parts.next()?.parse().ok()?);
        let status = parts.nth(2)?;
        Some(Self {
            revision: revision.to_owned(),
            at_ms,
            is_current: u128::from(now_ms.abs_diff(at_ms)) < RELAY_REPORT_TTL.as_millis(),
            status: status.to_owned(),
        })
    }
}

impl Table<RelayConfig> {
    /// Stores what a process reports. Relays that are gone, or have another revision, are skipped.
    ///
    /// # Errors
    /// Redis is unavailable, or at `maxmemory`.
    pub async fn report(&self, process: u64, reports: &[NewRelayReport]) -> Result<(), StoreError> {
        let ttl_ms = u64::try_from(RELAY_REPORT_TTL.as_millis()).unwrap_or(u64::MAX);
        for reports in reports.chunks(RELAYS_PER_CALL) {
            let relays = keys::RELAYS.to_owned();
            let call = self
                .store
                .call_on_both(&RELAYS_REPORT, relays, keys::RELAY_REPORTS);
            let mut call = call.arg(process).arg(ttl_ms);
            for report in reports {
                call = call.arg(&report.relay).arg(&report.revision);
                call = call.arg(report.rank).arg(&report.status);
            }
            call.send().await?.ok()?;
        }
        Ok(())
    }

    /// The reports about these relays, in their order.
    ///
    /// # Errors
    /// Redis is unavailable.
    pub async fn reports(
        &self,
        relays: &[NamespacedName],
    ) -> Result<Vec<Option<StoredRelayReport>>, StoreError> {
        if relays.is_empty() {
            return Ok(Vec::new());
        }
        let mut look_up = redis::pipe();
        let fields: Vec<String> = relays.iter().map(NamespacedName::to_string).collect();
        look_up.cmd("TIME").hmget(keys::RELAY_REPORTS, fields);
        let reply = self
            .store
            .read_small("HMGET", keys::RELAY_REPORTS, &look_up);
        let (time, texts): ((u64, u64), Vec<Option<Vec<u8>>>) = reply.await?;
        let now_ms = time.0 * 1000 + time.1 / 1000;
        let read = |text: Option<Vec<u8>>| StoredRelayReport::read(&text?, now_ms);
        Ok(texts.into_iter().map(read).collect())
    }
}
