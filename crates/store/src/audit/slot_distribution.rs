//! The distribution of slots over servers. While keys move between servers, a walk may miss some of them.

use std::sync::Arc;

use crate::error::StoreError;
use crate::link::StoreServer;
use crate::store::Store;

/// The servers that have keys, and on a cluster their slots. If they are the same before and after a walk, no key moved
/// to a server that the walk had already read.
#[derive(Debug)]
pub(super) struct SlotDistribution(Vec<(Arc<StoreServer>, Vec<String>)>);

impl SlotDistribution {
    /// Reads the current distribution.
    ///
    /// # Errors
    /// A slot is migrating, or a server does not reply.
    pub(super) async fn read(store: &Store) -> Result<Self, StoreError> {
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

    pub(super) fn servers(&self) -> impl Iterator<Item = &Arc<StoreServer>> {
        self.0.iter().map(|(server, _)| server)
    }

    /// Checks that the distribution is unchanged.
    ///
    /// # Errors
    /// It has changed, or it cannot be read.
    pub(super) async fn expect_same(&self, store: &Store) -> Result<(), StoreError> {
        let Self(now) = Self::read(store).await?;
        let mut pairs = self.0.iter().zip(&now);
        let is_same = self.0.len() == now.len()
            && pairs.all(|(one, other)| Arc::ptr_eq(&one.0, &other.0) && one.1 == other.1);
        if is_same { Ok(()) } else { Err(unsettled()) }
    }
}

/// The slots of a server, from its own line in `CLUSTER NODES`: id, address, flags, primary, ping, pong, epoch, link,
/// slots. A migrating or importing slot is in brackets.
async fn slots(store: &Store, server: &StoreServer) -> Result<Vec<String>, StoreError> {
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
        "keys are moving between servers: audit again when no slot moves and no failover is in progress",
    )
}
