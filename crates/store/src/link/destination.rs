//! The destination of a call.

use std::sync::Arc;
use std::time::Duration;

use redis::aio::ConnectionLike;
use redis::{Cmd, Pipeline, RedisFuture, Value};

use super::cluster::ClusterCall;
use super::kinds::Link;
use super::server::StoreServer;

/// The server that has the key of a call. On a cluster it follows redirections.
pub(crate) enum Destination {
    /// To this server.
    Straight {
        server: Arc<StoreServer>,
        /// Whether it uses the connection for large transfers.
        is_large: bool,
    },
    /// To the node of a cluster that accepts it.
    Routed(ClusterCall),
}

impl Link {
    /// The destination of a call on this key. On a cluster the call may wait up to `patience` while the slot of the key
    /// moves or has no primary.
    pub(crate) fn destination(&self, key: &str, patience: Duration) -> Destination {
        match self {
            Self::Master { server, .. } => Destination::Straight {
                server: Arc::clone(&server.borrow()),
                is_large: false,
            },
            Self::Cluster(cluster) => Destination::Routed(cluster.call(key, patience)),
        }
    }
}

impl Destination {
    /// The same, on the connection for large transfers.
    pub(crate) fn for_large_transfers(mut self) -> Self {
        match &mut self {
            Self::Straight { is_large, .. } => *is_large = true,
            Self::Routed(passage) => passage.is_large = true,
        }
        self
    }

    /// The server to which the call was sent last, if any.
    pub(crate) const fn server(&self) -> Option<&Arc<StoreServer>> {
        match self {
            Self::Straight { server, .. } => Some(server),
            Self::Routed(passage) => passage.server(),
        }
    }

    /// How long the call may wait for its slot, in addition to the command timeout.
    pub(crate) const fn patience(&self) -> Duration {
        match self {
            Self::Straight { .. } => Duration::ZERO,
            Self::Routed(passage) => passage.patience,
        }
    }
}

impl ConnectionLike for Destination {
    fn req_packed_command<'a>(&'a mut self, command: &'a Cmd) -> RedisFuture<'a, Value> {
        match self {
            Self::Straight {
                server, is_large, ..
            } => {
                let redis_connection = server.connection_for(*is_large);
                Box::pin(redis_connection.send(command))
            }
            Self::Routed(passage) => Box::pin(passage.send(command)),
        }
    }

    /// The keys of all commands are in one slot. The last command decides about redirections.
    fn req_packed_commands<'a>(
        &'a mut self,
        commands: &'a Pipeline,
        offset: usize,
        count: usize,
    ) -> RedisFuture<'a, Vec<Value>> {
        match self {
            Self::Straight {
                server, is_large, ..
            } => {
                let redis_connection = server.connection_for(*is_large);
                Box::pin(redis_connection.send_all(commands, offset, count))
            }
            Self::Routed(passage) => Box::pin(passage.send_all(commands, offset, count)),
        }
    }

    fn get_db(&self) -> i64 {
        match self {
            Self::Straight { server, .. } => (&server.connection).get_db(),
            Self::Routed(_) => 0,
        }
    }
}
