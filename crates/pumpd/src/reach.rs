//! Which instance can reach the server of which bucket.

use std::sync::Arc;

use tidegate_store::Store;

use crate::roster::Members;

/// The members of the roster, and the server of each bucket.
#[derive(Debug)]
pub(crate) struct Reach<'a> {
    members: &'a Members,
    /// By bucket. Empty while every instance reaches every server.
    servers: Vec<Option<Arc<str>>>,
}

impl<'a> Reach<'a> {
    pub(crate) fn of(members: &'a Members, store: &Store) -> Self {
        let buckets = (0..=u16::MAX).take(store.buckets() as usize);
        let servers = match members.cut_off.is_empty() {
            true => Vec::new(),
            false => buckets.map(|bucket| store.server_of(bucket)).collect(),
        };
        Self { members, servers }
    }

    /// Whether an instance is not known to be cut off from the server of a bucket.
    pub(crate) fn can_reach(&self, instance: &str, bucket: u16) -> bool {
        let server = self.servers.get(usize::from(bucket));
        let (Some(Some(server)), Some(cut_off)) = (server, self.members.cut_off.get(instance))
        else {
            return true;
        };
        !cut_off.iter().any(|it| **it == **server)
    }

    /// The live instances whose lock of a bucket counts: one that cannot reach its server cannot hand it over, either.
    pub(crate) fn holders(&self, bucket: u16) -> Arc<[String]> {
        if self.servers.is_empty() {
            return Arc::clone(&self.members.instances);
        }
        let instances = self.members.instances.iter();
        let holders = instances.filter(|instance| self.can_reach(instance, bucket));
        holders.cloned().collect()
    }
}
