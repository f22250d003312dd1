//! Notifications that servers have changed.

use std::sync::Arc;

use tokio::sync::watch;

use super::cluster::topology::Topology;
use super::server::StoreServer;

/// Notifies that servers have changed.
#[derive(Debug)]
pub(crate) enum ServerChanges {
    OfMaster(watch::Receiver<Arc<StoreServer>>),
    OfSlots(watch::Receiver<Arc<Topology>>),
}

impl ServerChanges {
    /// Waits until servers change. Cancel safe.
    pub(crate) async fn changed(&mut self) {
        let changed = match self {
            Self::OfMaster(master) => master.changed().await,
            Self::OfSlots(topology) => topology.changed().await,
        };
        if changed.is_err() {
            std::future::pending::<()>().await;
        }
    }
}
