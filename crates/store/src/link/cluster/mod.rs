//! A Redis Cluster: keys are on several primaries, and may move between them at any time.
//!
//! | file | contents |
//! |---|---|
//! | `view.rs` | slots and primaries as one node reports them |
//! | `nodes.rs` | the connections to nodes |
//! | `topology.rs` | the server of each slot |
//! | `follow.rs` | when the topology is read, and which reply is used |
//! | `cluster_call.rs` | a call, with its redirections and retries |
//!
//! `docs/decisions/0018-cluster.md` explains why the cluster client of the library is not used.

mod cluster_call;
mod follow;
mod nodes;
pub(crate) mod topology;
mod view;

use std::sync::Arc;
use std::time::Duration;

use tidegate_core::hash_slot::hash_slot;
use tokio::sync::{Notify, watch};

pub(crate) use cluster_call::ClusterCall;
pub(crate) use topology::Topology;

use super::host_port::HostPort;
use super::link_config::ServerAccess;
use super::server::StoreServer;
use crate::config::StoreConfig;
use crate::connect_error::ConnectError;
use crate::error::StoreError;
use follow::TopologyFollower;
use nodes::Nodes;

/// The servers of a cluster, and their slots.
pub(crate) struct Cluster {
    nodes: Arc<Nodes>,
    topology: watch::Receiver<Arc<Topology>>,
    /// Wakes the follower, because slots may have moved.
    look: Arc<Notify>,
}

impl Cluster {
    /// Reads the topology from the seeds, and connects to all primaries.
    pub(crate) async fn open(
        config: &StoreConfig,
        seeds: Vec<HostPort>,
        access: ServerAccess,
    ) -> Result<Self, ConnectError> {
        let nodes = Arc::new(Nodes::new(access));
        let look = Arc::new(Notify::new());
        let following =
            TopologyFollower::start(config, seeds, Arc::clone(&nodes), Arc::clone(&look));
        let topology = following.await.map_err(|error| match error {
            StoreError::Corrupt(said) if said.contains("cluster support disabled") => {
                ConnectError::BadConfig(format!(
                    "cluster names a server that is not a node of a cluster: name it with url ({said})"
                ))
            }
            error => error.into(),
        })?;
        Ok(Self {
            nodes,
            topology,
            look,
        })
    }

    /// The passage of a call on this key.
    pub(crate) fn call(self: &Arc<Self>, key: &str, patience: Duration) -> ClusterCall {
        ClusterCall::new(Arc::clone(self), hash_slot(key.as_bytes()), patience)
    }

    /// The current topology, and a receiver that is notified of changes.
    pub(crate) fn topology(&self) -> (Arc<Topology>, watch::Receiver<Arc<Topology>>) {
        let mut changes = self.topology.clone();
        let topology = Arc::clone(&changes.borrow_and_update());
        (topology, changes)
    }

    /// Makes the follower read the topology immediately.
    pub(crate) fn refresh(&self) {
        self.look.notify_one();
    }

    pub(crate) fn server_of(&self, slot: u16) -> Option<Arc<StoreServer>> {
        self.topology.borrow().server_of(slot).cloned()
    }

    /// Waits until a server has no slots any more. If it has none yet, it waits until it has got some and lost them.
    /// Cancel safe.
    async fn lost_all_slots(&self, server: &Arc<StoreServer>) {
        let mut changes = self.topology.clone();
        let mut is_followed = true;
        for has_slots in [true, false] {
            let changed = changes.wait_for(|topology| topology.has(server) == has_slots);
            is_followed &= changed.await.is_ok();
        }
        if !is_followed {
            std::future::pending::<()>().await;
        }
    }
}

impl Topology {
    pub(crate) fn server_of_key(&self, key: &str) -> Option<&Arc<StoreServer>> {
        self.server_of(hash_slot(key.as_bytes()))
    }
}

impl std::fmt::Debug for Cluster {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.debug_list()
            .entries(self.topology.borrow().servers())
            .finish()
    }
}
