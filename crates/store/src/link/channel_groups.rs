//! The channels of a subscription by server.

use std::sync::Arc;

use super::kinds::Link;
use super::moves::ServerChanges;
use super::server::StoreServer;

/// The channels of a subscription, by the server that has their slots.
pub(crate) struct ChannelGroups {
    pub(crate) shares: Vec<ChannelGroup>,
    /// Notifies when this has changed.
    pub(crate) moves: ServerChanges,
}

/// A server, and the channels to subscribe to there.
#[derive(Clone)]
pub(crate) struct ChannelGroup {
    pub(crate) server: Arc<StoreServer>,
    pub(crate) channels: Vec<String>,
}

impl Link {
    /// The current servers of these channels. A channel whose slot has no server is left out.
    pub(crate) fn channel_groups(&self, channels: &[String]) -> ChannelGroups {
        let (shares, moves) = match self {
            Self::Master { server, .. } => {
                let mut moves = server.clone();
                let share = ChannelGroup {
                    server: Arc::clone(&moves.borrow_and_update()),
                    channels: channels.to_vec(),
                };
                (vec![share], ServerChanges::OfMaster(moves))
            }
            Self::Cluster(cluster) => {
                let (topology, moves) = cluster.topology();
                let mut shares: Vec<ChannelGroup> = Vec::new();
                for channel in channels {
                    if let Some(server) = topology.server_of_key(channel) {
                        add(&mut shares, server, channel);
                    }
                }
                (shares, ServerChanges::OfSlots(moves))
            }
        };
        ChannelGroups { shares, moves }
    }
}

impl ChannelGroup {
    /// Whether server and channels are the same.
    pub(crate) fn is_same(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.server, &other.server) && self.channels == other.channels
    }
}

fn add(shares: &mut Vec<ChannelGroup>, server: &Arc<StoreServer>, channel: &str) {
    let mut known = shares.iter_mut();
    match known.find(|share| Arc::ptr_eq(&share.server, server)) {
        Some(share) => share.channels.push(channel.to_owned()),
        None => shares.push(ChannelGroup {
            server: Arc::clone(server),
            channels: vec![channel.to_owned()],
        }),
    }
}
