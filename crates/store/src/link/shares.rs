//! Which server tells of which channels.

use std::sync::Arc;

use super::server::Server;
use super::{Link, Moves};

/// The channels of a subscription, by the server that has their slots.
pub(crate) struct Shares {
    pub(crate) shares: Vec<Share>,
    /// Word of when they lie otherwise.
    pub(crate) moves: Moves,
}

/// A server, and the channels to subscribe to there.
#[derive(Clone)]
pub(crate) struct Share {
    pub(crate) server: Arc<Server>,
    pub(crate) channels: Vec<String>,
}

impl Link {
    /// How these channels lie now. A channel whose slot nobody has is left out; that changes.
    pub(crate) fn shares(&self, channels: &[String]) -> Shares {
        let one = |server: &Arc<Server>| {
            vec![Share {
                server: Arc::clone(server),
                channels: channels.to_vec(),
            }]
        };
        let (shares, moves) = match self {
            Self::Direct(server) => (one(server), Moves::Never),
            Self::Sentinel { master, .. } => {
                let mut moves = master.clone();
                let shares = one(&moves.borrow_and_update());
                (shares, Moves::OfMaster(moves))
            }
            Self::Cluster(cluster) => {
                let (topology, moves) = cluster.topology();
                let mut shares: Vec<Share> = Vec::new();
                for channel in channels {
                    if let Some(server) = topology.server_of_key(channel) {
                        add(&mut shares, server, channel);
                    }
                }
                (shares, Moves::OfSlots(moves))
            }
        };
        Shares { shares, moves }
    }
}

impl Share {
    /// Whether there is nothing to change.
    pub(crate) fn is_same(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.server, &other.server) && self.channels == other.channels
    }
}

fn add(shares: &mut Vec<Share>, server: &Arc<Server>, channel: &str) {
    let mut known = shares.iter_mut();
    match known.find(|share| Arc::ptr_eq(&share.server, server)) {
        Some(share) => share.channels.push(channel.to_owned()),
        None => shares.push(Share {
            server: Arc::clone(server),
            channels: vec![channel.to_owned()],
        }),
    }
}
