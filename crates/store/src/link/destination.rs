//! Where one call goes.

use std::sync::Arc;
use std::time::Duration;

use redis::aio::ConnectionLike;
use redis::{Cmd, Pipeline, RedisFuture, Value};

use super::cluster::Passage;
use super::server::Server;
use super::{Link, Moves};

/// The server that has the key of a call. What the call sends goes there, and on a cluster on from
/// there.
pub(crate) struct Destination {
    way: Way,
    /// How long the call may wait, besides for an answer.
    patience: Duration,
}

enum Way {
    /// To this server, as long as it is the one that counts.
    Straight {
        server: Arc<Server>,
        /// Whether it goes over the connection for large transfers.
        is_large: bool,
        moves: Moves,
    },
    /// To whichever node takes it.
    Routed(Passage),
}

impl Link {
    /// The way to the server that has this key. Where keys move, a call about a key on its way may
    /// wait for so long as `patience`; otherwise that is not needed.
    pub(crate) fn to(&self, key: &str, patience: Duration) -> Destination {
        let straight = |server: Arc<Server>, moves| Destination {
            way: Way::Straight {
                server,
                is_large: false,
                moves,
            },
            patience: Duration::ZERO,
        };
        match self {
            Self::Direct(server) => straight(Arc::clone(server), Moves::Never),
            Self::Sentinel { master, .. } => {
                let mut moves = master.clone();
                let server = Arc::clone(&moves.borrow_and_update());
                straight(server, Moves::OfMaster(moves))
            }
            Self::Cluster(cluster) => {
                let way = Way::Routed(cluster.passage(key, patience));
                Destination { way, patience }
            }
        }
    }
}

impl Destination {
    /// The same, over the connection that nothing small has to wait for.
    pub(crate) fn for_large_transfers(mut self) -> Self {
        match &mut self.way {
            Way::Straight { is_large, .. } => *is_large = true,
            Way::Routed(passage) => passage.is_large = true,
        }
        self
    }

    /// The server that was asked last, if any was.
    pub(crate) fn server(&self) -> Option<&Server> {
        match &self.way {
            Way::Straight { server, .. } => Some(server),
            Way::Routed(passage) => passage.server(),
        }
    }

    /// The same, to be kept.
    pub(crate) fn into_server(self) -> Option<Arc<Server>> {
        match self.way {
            Way::Straight { server, .. } => Some(server),
            Way::Routed(passage) => passage.into_server(),
        }
    }

    /// Word of when nothing can be hoped for any more from the server that was asked.
    pub(crate) fn moves(&self) -> Moves {
        match &self.way {
            Way::Straight { moves, .. } => moves.clone(),
            // It minds that itself.
            Way::Routed(_) => Moves::Never,
        }
    }

    /// How long the call may wait, besides for an answer.
    pub(crate) const fn patience(&self) -> Duration {
        self.patience
    }
}

impl ConnectionLike for Destination {
    fn req_packed_command<'a>(&'a mut self, command: &'a Cmd) -> RedisFuture<'a, Value> {
        match &mut self.way {
            Way::Straight {
                server, is_large, ..
            } => {
                let line = server.line(*is_large);
                Box::pin(line.send(command))
            }
            Way::Routed(passage) => Box::pin(passage.send(command)),
        }
    }

    /// The commands are about keys of the same slot, and the last one is what the others are for.
    fn req_packed_commands<'a>(
        &'a mut self,
        commands: &'a Pipeline,
        offset: usize,
        count: usize,
    ) -> RedisFuture<'a, Vec<Value>> {
        match &mut self.way {
            Way::Straight {
                server, is_large, ..
            } => {
                let line = server.line(*is_large);
                Box::pin(line.send_all(commands, offset, count))
            }
            Way::Routed(passage) => Box::pin(passage.send_all(commands, offset, count)),
        }
    }

    fn get_db(&self) -> i64 {
        match &self.way {
            Way::Straight { server, .. } => (&server.line).get_db(),
            Way::Routed(_) => 0,
        }
    }
}
