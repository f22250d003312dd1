//! The kinds of links to a deployment.

use std::sync::Arc;

use tidegate_core::hash_slot::hash_slot;
use tokio::sync::{Notify, watch};

use super::cluster::Cluster;
use super::follow::MasterFollower;
use super::link_config::LinkConfig;
use super::server::StoreServer;
use crate::config::StoreConfig;
use crate::connect_error::ConnectError;
use crate::error::StoreError;

/// The servers of a deployment, by kind.
#[derive(Debug)]
pub(crate) enum Link {
    /// One fixed server.
    Direct(Arc<StoreServer>),
    /// The master of a group of servers that sentinels monitor.
    Sentinel {
        master: watch::Receiver<Arc<StoreServer>>,
        /// Wakes the follower, because the master may have changed.
        look: Arc<Notify>,
    },
    /// The primaries of a Redis Cluster.
    Cluster(Arc<Cluster>),
}

impl Link {
    /// Connects as configured.
    pub(crate) async fn open(config: &StoreConfig) -> Result<Self, ConnectError> {
        match LinkConfig::new(config).map_err(ConnectError::BadConfig)? {
            LinkConfig::Direct(endpoint) => Ok(Self::Direct(Arc::new(endpoint.connect().await?))),
            LinkConfig::Sentinel(sentinels, access) => {
                let look = Arc::new(Notify::new());
                let master =
                    MasterFollower::start(config, sentinels, access, Arc::clone(&look)).await?;
                Ok(Self::Sentinel { master, look })
            }
            LinkConfig::Cluster(seeds, access) => {
                let cluster = Cluster::open(config, seeds, access).await?;
                Ok(Self::Cluster(Arc::new(cluster)))
            }
        }
    }

    /// Whether keys are on several servers, and may move between them.
    pub(crate) const fn is_cluster(&self) -> bool {
        matches!(self, Self::Cluster(_))
    }

    /// Whether every slot has a reachable server.
    pub(crate) fn is_complete(&self) -> bool {
        match self {
            Self::Direct(_) | Self::Sentinel { .. } => true,
            Self::Cluster(cluster) => cluster.topology().0.is_whole(),
        }
    }

    /// All servers that have keys.
    pub(crate) fn servers(&self) -> Vec<Arc<StoreServer>> {
        match self {
            Self::Direct(server) => vec![Arc::clone(server)],
            Self::Sentinel { master, .. } => vec![Arc::clone(&master.borrow())],
            Self::Cluster(cluster) => cluster.topology().0.servers(),
        }
    }

    /// The server that has a key; `None` if no reachable server does.
    pub(crate) fn server_of(&self, key: &str) -> Option<Arc<StoreServer>> {
        match self {
            Self::Direct(server) => Some(Arc::clone(server)),
            Self::Sentinel { master, .. } => Some(Arc::clone(&master.borrow())),
            Self::Cluster(cluster) => cluster.server_of(hash_slot(key.as_bytes())),
        }
    }

    /// Triggers an immediate check whether other servers have the keys now.
    pub(crate) fn refresh(&self) {
        match self {
            Self::Direct(_) => {}
            Self::Sentinel { look, .. } => look.notify_one(),
            Self::Cluster(cluster) => cluster.refresh(),
        }
    }

    /// Reports a failed call. If another server may have the keys now, this triggers an immediate check.
    pub(crate) fn report_failure(&self, error: &StoreError) {
        if error.may_be_a_restart() {
            self.refresh();
        }
    }
}
