//! The link to a Redis deployment: it selects the server of a call or subscription.
//!
//! | kind | the server |
//! |---|---|
//! | direct | the server in the url |
//! | sentinel | the master that the sentinels report; see `follow.rs` |
//! | cluster | the primary that has the slot of the key; see `cluster/` |
//!
//! The rest of the store does not depend on the kind: a call gets a [`Destination`] for its key, a subscription gets
//! [`channel_groups::ChannelGroups`] for its channels, and both report failures with [`Link::report_failure`]. A new
//! kind is a new variant here.

mod barrier;
mod channel_groups;
mod cluster;
mod connection;
mod destination;
mod follow;
mod host_port;
mod in_runtime;
mod kinds;
mod link_config;
mod moves;
mod no_reply_timer;
mod sentinel;
pub(crate) mod server;
mod tls;
mod upload_turns;
mod waits;

pub(crate) use channel_groups::ChannelGroup;
pub(crate) use destination::Destination;
pub(crate) use kinds::Link;
pub(crate) use server::StoreServer;
pub(crate) use waits::bounded;
