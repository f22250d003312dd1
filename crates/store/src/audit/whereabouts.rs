//! Which server has which keys. While keys go from one to another, a walk may miss some that are there.

use std::sync::Arc;

use crate::link::Server;
use crate::{Store, StoreError};

/// The servers that have keys, and on a cluster the slots of each. Equal before and after a walk, they
/// tell that no key went to where the walk had been already.
#[derive(Debug)]
pub(super) struct Whereabouts(Vec<(Arc<Server>, Vec<String>)>);

impl Whereabouts {
    /// Asks for them.
    ///
    /// # Errors
    /// A slot is on its way, or a server cannot be asked.
    pub(super) async fn now(store: &Store) -> Result<Self, StoreError> {
        let mut all = Vec::new();
        for server in store.inner.link.servers() {
            let slots = match store.inner.link.is_cluster() {
                true => slots(store, &server).await?,
                false => Vec::new(),
            };
            all.push((server, slots));
        }
        Ok(Self(all))
    }

    /// All servers.
    pub(super) fn servers(&self) -> impl Iterator<Item = &Arc<Server>> {
        self.0.iter().map(|(server, _)| server)
    }

    /// Makes sure that they are the same still.
    ///
    /// # Errors
    /// They are not.
    pub(super) async fn expect_same(&self, store: &Store) -> Result<(), StoreError> {
        let Self(now) = Self::now(store).await?;
        let mut pairs = self.0.iter().zip(&now);
        let is_same = self.0.len() == now.len()
            && pairs.all(|(one, other)| Arc::ptr_eq(&one.0, &other.0) && one.1 == other.1);
        if is_same { Ok(()) } else { Err(unsettled()) }
    }
}

/// The slots of a server, by its own line in `CLUSTER NODES`: id, place, flags, primary, ping, pong, epoch,
/// link, slots. One that it hands over or takes over is in brackets.
async fn slots(store: &Store, server: &Server) -> Result<Vec<String>, StoreError> {
    let session = server.session(store.inner.config.command_timeout);
    let mut nodes = redis::cmd("CLUSTER");
    nodes.arg("NODES");
    let nodes: String = session.command(&nodes).await?;
    let is_own = |line: &&str| {
        line.split(' ')
            .nth(2)
            .is_some_and(|flags| flags.contains("myself"))
    };
    let own = nodes.lines().find(is_own).unwrap_or_default();
    let slots: Vec<String> = own.split(' ').skip(8).map(str::to_owned).collect();
    match slots.iter().any(|slot| slot.starts_with('[')) {
        true => Err(unsettled()),
        false => Ok(slots),
    }
}

fn unsettled() -> StoreError {
    StoreError::not_ready(
        "keys are on their way from one server to another: audit again when no slot moves and no failover goes on"
            .to_owned(),
    )
}
