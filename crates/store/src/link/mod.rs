//! The link to a Redis deployment: which server a call or a subscription goes to.
//!
//! | kind | the server |
//! |---|---|
//! | direct | the one that the url names |
//! | sentinel | the master that the sentinels name now; see `follow.rs` |
//! | cluster | the primary that has the slot of the key; see `cluster/` |
//!
//! The rest of the store knows none of this: a call asks for a [`Destination`] by its key, a subscription
//! for [`Shares`] of its channels, and both tell of failures with [`Link::failed`]. A further kind is a
//! further variant here.

mod barrier;
mod cluster;
mod destination;
mod follow;
mod line;
mod route;
mod sentinel;
mod server;
mod shares;
mod silence;
mod tls;

use std::sync::Arc;

use std::time::Duration;

use tokio::sync::{Notify, watch};
use tokio::time::sleep;

pub(crate) use destination::Destination;
pub(crate) use server::{Server, Session, bounded};
pub(crate) use shares::Share;

use crate::{ConnectError, StoreConfig, StoreError};
use cluster::{Cluster, Slot, Topology};
use follow::Follower;
use route::Route;

/// An answer that is on its way from a server that counted until now may still come.
const FAREWELL: Duration = Duration::from_millis(100);

/// How calls and subscriptions find their server.
#[derive(Debug)]
pub(crate) enum Link {
    /// One server, always the same.
    Direct(Arc<Server>),
    /// The master of a group of servers that sentinels watch.
    Sentinel {
        master: watch::Receiver<Arc<Server>>,
        /// Wakes the follower: something failed, the master may be another one.
        look: Arc<Notify>,
    },
    /// Primaries that share the keys among them.
    Cluster(Arc<Cluster>),
}

/// Word of servers that are not the right ones any more. A copy hears it again.
#[derive(Debug, Clone)]
pub(crate) enum Moves {
    Never,
    OfMaster(watch::Receiver<Arc<Server>>),
    OfSlots(watch::Receiver<Arc<Topology>>),
}

impl Link {
    /// Reads the settings and makes the first connections.
    pub(crate) async fn open(config: &StoreConfig) -> Result<Self, ConnectError> {
        match Route::new(config).map_err(ConnectError::BadConfig)? {
            Route::Direct(endpoint) => Ok(Self::Direct(Arc::new(endpoint.connect().await?))),
            Route::Sentinel(sentinels, access) => {
                let look = Arc::new(Notify::new());
                let master = Follower::start(config, sentinels, access, Arc::clone(&look)).await?;
                Ok(Self::Sentinel { master, look })
            }
            Route::Cluster(seeds, access) => {
                let cluster = Cluster::open(config, seeds, access).await?;
                Ok(Self::Cluster(Arc::new(cluster)))
            }
        }
    }

    /// Whether keys are spread over several servers, and move.
    pub(crate) const fn is_cluster(&self) -> bool {
        matches!(self, Self::Cluster(_))
    }

    /// Whether every key has a server.
    pub(crate) fn is_whole(&self) -> bool {
        match self {
            Self::Direct(_) | Self::Sentinel { .. } => true,
            Self::Cluster(cluster) => cluster.topology().0.is_whole(),
        }
    }

    /// All servers that have keys.
    pub(crate) fn servers(&self) -> Vec<Arc<Server>> {
        match self {
            Self::Direct(server) => vec![Arc::clone(server)],
            Self::Sentinel { master, .. } => vec![Arc::clone(&master.borrow())],
            Self::Cluster(cluster) => cluster.topology().0.servers(),
        }
    }

    /// The server that has a key, if anybody has it who can be reached.
    pub(crate) fn server_of(&self, key: &str) -> Option<Arc<Server>> {
        match self {
            Self::Direct(server) => Some(Arc::clone(server)),
            Self::Sentinel { master, .. } => Some(Arc::clone(&master.borrow())),
            Self::Cluster(cluster) => cluster.server_of(Slot::of(key.as_bytes())),
        }
    }

    /// Has somebody look at once whether other servers have the keys by now.
    pub(crate) fn look(&self) {
        match self {
            Self::Direct(_) => {}
            Self::Sentinel { look, .. } => look.notify_one(),
            Self::Cluster(cluster) => cluster.look(),
        }
    }

    /// Told of every call that failed: where another server may have the keys by now, somebody looks
    /// at once.
    pub(crate) fn failed(&self, error: &StoreError) {
        if error.may_be_a_restart() {
            self.look();
        }
    }
}

impl Moves {
    /// Waits until servers are other ones; for ever where that cannot be. Cancel safe.
    pub(crate) async fn moved(&mut self) {
        let changed = match self {
            Self::Never => false,
            Self::OfMaster(master) => master.changed().await.is_ok(),
            Self::OfSlots(topology) => topology.changed().await.is_ok(),
        };
        if !changed {
            std::future::pending::<()>().await;
        }
    }

    /// Waits until nothing can be hoped for any more from a server that was asked something. Cancel
    /// safe.
    pub(crate) async fn left(&mut self) {
        self.moved().await;
        sleep(FAREWELL).await;
    }
}
