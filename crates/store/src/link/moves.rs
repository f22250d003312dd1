//! Notifications that servers have changed.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;
use tokio::time::sleep;

use super::cluster::topology::Topology;
use super::server::StoreServer;

/// How long a reply in flight from a former server is still accepted.
pub(super) const FAREWELL: Duration = Duration::from_millis(100);

/// Notifies that servers have changed. A clone is notified separately.
#[derive(Debug, Clone)]
pub(crate) enum ServerChanges {
    Never,
    OfMaster(watch::Receiver<Arc<StoreServer>>),
    OfSlots(watch::Receiver<Arc<Topology>>),
}

impl ServerChanges {
    /// Waits until servers change; for ever if they are fixed. Cancel safe.
    pub(crate) async fn changed(&mut self) {
        let changed = match self {
            Self::Never => false,
            Self::OfMaster(master) => master.changed().await.is_ok(),
            Self::OfSlots(topology) => topology.changed().await.is_ok(),
        };
        if !changed {
            std::future::pending::<()>().await;
        }
    }

    /// Waits until servers have changed, and replies in flight have had time to arrive. Cancel safe.
    pub(crate) async fn changed_and_drained(&mut self) {
        self.changed().await;
        sleep(FAREWELL).await;
    }
}
