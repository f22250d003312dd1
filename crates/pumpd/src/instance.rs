//! The state that the tasks of a pump share.

use std::collections::BTreeSet;

use parking_lot::Mutex;
use tidegate_daemon::traces::Traces;
use tidegate_store::{Store, StoreError};
use tokio::sync::{Notify, watch};

use crate::config::PumpConfig;
use crate::pump_metrics::PumpMetrics;
use crate::readiness::PumpReadiness;
use crate::table_reads::TableReads;

/// An instance of the pump of one pool: the state that its tasks share.
#[derive(Debug)]
pub(crate) struct Instance {
    pub(crate) store: Store,
    /// Name of this instance, and token of its locks.
    pub(crate) token: String,
    pub(crate) config: PumpConfig,
    pub(crate) measures: PumpMetrics,
    pub(crate) membership: PumpReadiness,
    /// Reads of tables that may be on other servers than the buckets.
    pub(crate) tables: TableReads,
    /// Where spans go, if there is a collector.
    pub(crate) traces: Option<Traces>,
    /// Notifies that locks must be checked again.
    pub(crate) look_again: watch::Sender<()>,
    /// Notifies that a roster may have changed.
    pub(crate) roster_changed: watch::Sender<()>,
    /// Notifies that the clock of a server was set forward, so that timers may be due earlier than planned.
    pub(crate) clock_jumped: Notify,
    /// Buckets whose lock this instance seemed to hold, until Redis refused a call or a message said that it was taken.
    doubted: Mutex<BTreeSet<u16>>,
}

impl Instance {
    /// Creates an instance that has no locks yet. `token` is its name.
    pub(crate) fn new(
        pool: &str,
        store: Store,
        token: String,
        config: PumpConfig,
        membership: PumpReadiness,
        traces: Option<Traces>,
    ) -> Self {
        Self {
            store,
            token,
            config,
            measures: PumpMetrics::new(pool),
            membership,
            tables: TableReads::default(),
            traces,
            look_again: watch::Sender::new(()),
            roster_changed: watch::Sender::new(()),
            clock_jumped: Notify::new(),
            doubted: Mutex::default(),
        }
    }

    /// Reads a table, for at most 1 s.
    ///
    /// # Errors
    /// The errors of `read`; or its server does not answer in time, or did not answer a moment ago.
    pub(crate) async fn read_table<T>(
        &self,
        table: &str,
        read: impl Future<Output = Result<T, StoreError>>,
    ) -> Result<T, StoreError> {
        let server = self.store.server_of_key(table);
        self.tables
            .read(server.as_deref().unwrap_or(table), read)
            .await
    }

    /// Makes the keeper check the lock of a bucket again.
    pub(crate) fn doubt(&self, bucket: u16) {
        self.doubted.lock().insert(bucket);
        self.look_again.send_replace(());
    }

    /// Of these buckets, removes and returns the buckets whose locks are to be checked again.
    pub(crate) fn take_doubted(&self, buckets: &[u16]) -> BTreeSet<u16> {
        let mut doubted = self.doubted.lock();
        let taken = buckets.iter().copied();
        taken.filter(|bucket| doubted.remove(bucket)).collect()
    }
}
