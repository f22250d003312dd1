//! The kinds of links to a deployment.

use std::sync::Arc;

use tidegate_core::hash_slot::hash_slot;
use tokio::sync::{Notify, watch};

use super::cluster::Cluster;
use super::follow::{MasterFollower, MasterSource};
use super::link_config::LinkConfig;
use super::server::StoreServer;
use crate::config::StoreConfig;
use crate::connect_error::ConnectError;
use crate::error::StoreError;

/// The servers of a deployment, by kind.
#[derive(Debug)]
pub(crate) enum Link {
    /// The master: the server at the address in the settings, or the server that the sentinels report.
    Master {
        server: watch::Receiver<Arc<StoreServer>>,
        /// Wakes the follower, because the master may have changed.
        look: Arc<Notify>,
    },
    /// The primaries of a Redis Cluster.
    Cluster(Arc<Cluster>),
}

impl Link {
    pub(crate) async fn open(config: &StoreConfig) -> Result<Self, ConnectError> {
        let source = match LinkConfig::new(config).map_err(ConnectError::BadConfig)? {
            LinkConfig::Direct(endpoint) => MasterSource::Address(endpoint),
            LinkConfig::Sentinel(sentinels, access) => MasterSource::sentinels(sentinels, access),
            LinkConfig::Cluster(seeds, access) => {
                let cluster = Cluster::open(config, seeds, access).await?;
                return Ok(Self::Cluster(Arc::new(cluster)));
            }
        };
        let look = Arc::new(Notify::new());
        let server = MasterFollower::start(config, source, Arc::clone(&look)).await?;
        Ok(Self::Master { server, look })
    }

    /// Whether keys are on several servers, and may move between them.
    pub(crate) const fn is_cluster(&self) -> bool {
        matches!(self, Self::Cluster(_))
    }

    /// Whether every slot has a reachable server.
    pub(crate) fn is_complete(&self) -> bool {
        match self {
            Self::Master { .. } => true,
            Self::Cluster(cluster) => cluster.topology().0.is_whole(),
        }
    }

    /// All servers that have keys.
    pub(crate) fn servers(&self) -> Vec<Arc<StoreServer>> {
        match self {
            Self::Master { server, .. } => vec![Arc::clone(&server.borrow())],
            Self::Cluster(cluster) => cluster.topology().0.servers(),
        }
    }

    /// The server that has a key; `None` if no reachable server does.
    pub(crate) fn server_of(&self, key: &str) -> Option<Arc<StoreServer>> {
        match self {
            Self::Master { server, .. } => Some(Arc::clone(&server.borrow())),
            Self::Cluster(cluster) => cluster.server_of(hash_slot(key.as_bytes())),
        }
    }

    /// Triggers an immediate check whether other servers have the keys now.
    pub(crate) fn refresh(&self) {
        match self {
            Self::Master { look, .. } => look.notify_one(),
            Self::Cluster(cluster) => cluster.refresh(),
        }
    }

    /// Reports a failed call to a server. If another server may have the keys now, this triggers an immediate check.
    pub(crate) fn report_failure(&self, server: Option<&StoreServer>, error: &StoreError) {
        if let (Some(server), true) = (server, error.is_from_replica()) {
            server.mark_misled();
        }
        if error.may_be_a_restart() {
            self.refresh();
        }
    }
}
