//! A Redis Cluster: keys are spread over several primaries, and move between them while calls go on.
//!
//! | file | what it knows |
//! |---|---|
//! | `slot.rs` | the hash slot of a key |
//! | `view.rs` | what a node says about slots and primaries |
//! | `nodes.rs` | the connections |
//! | `topology.rs` | which connection has which slots |
//! | `follow.rs` | when to look, and whom to believe |
//! | `passage.rs` | one call on its way, wherever it is sent |
//!
//! `docs/decisions/0018-cluster.md` says why the client library's own way is not taken.

mod follow;
mod nodes;
mod passage;
mod slot;
mod topology;
mod view;

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{Notify, watch};

pub(crate) use passage::Passage;
pub(crate) use slot::Slot;
pub(crate) use topology::Topology;

use super::route::{Access, Place};
use super::server::Server;
use crate::{ConnectError, StoreConfig, StoreError};
use follow::Follower;
use nodes::Nodes;

/// The servers of a cluster, and which of them has which keys.
pub(crate) struct Cluster {
    nodes: Arc<Nodes>,
    topology: watch::Receiver<Arc<Topology>>,
    /// Wakes the follower: something failed or was sent elsewhere, slots may have moved.
    look: Arc<Notify>,
}

impl Cluster {
    /// Reads the topology from one of the seeds and connects to all primaries.
    pub(crate) async fn open(
        config: &StoreConfig,
        seeds: Vec<Place>,
        access: Access,
    ) -> Result<Self, ConnectError> {
        let nodes = Arc::new(Nodes::new(access));
        let look = Arc::new(Notify::new());
        let following = Follower::start(config, seeds, Arc::clone(&nodes), Arc::clone(&look));
        let topology = following.await.map_err(|error| match error {
            StoreError::Corrupt(said) if said.contains("cluster support disabled") => {
                ConnectError::BadConfig(format!(
                    "cluster names a server that is no node of a cluster: name it with url ({said})"
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

    /// The way of one call to the server that has this key.
    pub(crate) fn passage(self: &Arc<Self>, key: &str, patience: Duration) -> Passage {
        Passage::new(Arc::clone(self), Slot::of(key.as_bytes()), patience)
    }

    /// The servers and their slots, and word of when that is different.
    pub(crate) fn topology(&self) -> (Arc<Topology>, watch::Receiver<Arc<Topology>>) {
        let mut changes = self.topology.clone();
        let topology = Arc::clone(&changes.borrow_and_update());
        (topology, changes)
    }

    /// Has the follower look at once.
    pub(crate) fn look(&self) {
        self.look.notify_one();
    }

    pub(crate) fn server_of(&self, slot: Slot) -> Option<Arc<Server>> {
        self.topology.borrow().server_of(slot).cloned()
    }

    /// Waits until a server has no slots any more. One that is about to get its first may not be known
    /// to have any yet. Cancel safe.
    async fn left(&self, server: &Arc<Server>) {
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
    /// The server that has a key.
    pub(crate) fn server_of_key(&self, key: &str) -> Option<&Arc<Server>> {
        self.server_of(Slot::of(key.as_bytes()))
    }
}

impl std::fmt::Debug for Cluster {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.debug_list()
            .entries(self.topology.borrow().servers())
            .finish()
    }
}
