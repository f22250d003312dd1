//! The link to a Redis deployment: which server a call or a subscription goes to.
//!
//! | kind | the server |
//! |---|---|
//! | direct | the one that the url names |
//! | sentinel | the master that the sentinels name now; see `follow.rs` |
//!
//! The rest of the store knows none of this: a call or a subscription asks for [`Link::server`], is told
//! by [`Moves`] when that is the wrong one, and tells of failures with [`Link::failed`]. A further kind
//! is a further variant here.

mod follow;
mod line;
mod route;
mod sentinel;
mod server;
mod tls;

use std::sync::Arc;

use std::time::Duration;

use tokio::sync::{Notify, watch};
use tokio::time::sleep;

pub(crate) use server::{Server, Session, bounded};

use crate::{ConnectError, StoreConfig, StoreError, Unavailable};
use follow::Follower;
use route::Route;

/// An answer that is on its way from a server that was the master until now may still come.
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
}

/// Word of a server that is not the right one any more. A copy hears it again.
#[derive(Debug, Clone)]
pub(crate) struct Moves(Option<watch::Receiver<Arc<Server>>>);

impl Link {
    /// Reads the settings and makes the first connection.
    pub(crate) async fn open(config: &StoreConfig) -> Result<Self, ConnectError> {
        match Route::new(config).map_err(ConnectError::BadConfig)? {
            Route::Direct(endpoint) => Ok(Self::Direct(Arc::new(endpoint.connect().await?))),
            Route::Sentinel(sentinels, masters) => {
                let look = Arc::new(Notify::new());
                let master = Follower::start(config, sentinels, masters, Arc::clone(&look)).await?;
                Ok(Self::Sentinel { master, look })
            }
        }
    }

    /// The server to send the next call to or to subscribe at, and word of when it is another one.
    /// Cheap: nothing is copied.
    pub(crate) fn server(&self) -> (Arc<Server>, Moves) {
        match self {
            Self::Direct(server) => (Arc::clone(server), Moves(None)),
            Self::Sentinel { master, .. } => {
                let mut moves = master.clone();
                let server = Arc::clone(&moves.borrow_and_update());
                (server, Moves(Some(moves)))
            }
        }
    }

    /// Told of every call that failed: where another server may be the master by now, somebody looks
    /// at once.
    pub(crate) fn failed(&self, error: &StoreError) {
        let Self::Sentinel { look, .. } = self else {
            return;
        };
        if let StoreError::Unavailable {
            reason: Unavailable::Away | Unavailable::NotReady | Unavailable::ReadOnly,
            ..
        } = error
        {
            look.notify_one();
        }
    }
}

impl Moves {
    /// Waits until the server is another one; for ever where that cannot be. Cancel safe.
    pub(crate) async fn moved(&mut self) {
        let changed = match &mut self.0 {
            Some(master) => master.changed().await.is_ok(),
            None => false,
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
