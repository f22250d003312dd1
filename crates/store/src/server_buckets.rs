//! The buckets of each server.

use std::collections::BTreeMap;
use std::sync::Arc;

use tidegate_core::placement;

use crate::store::Store;

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServerBuckets {
    /// The address of the server.
    pub address: Arc<str>,
    /// Its buckets, in their order; at least one.
    pub buckets: Arc<[u16]>,
    /// The bucket that stores the roster of the server.
    pub roster: u16,
}

impl Store {
    /// The servers that have buckets, in the order of their addresses. Buckets without a reachable server are left out.
    pub fn buckets_by_server(&self) -> Vec<ServerBuckets> {
        let mut servers: BTreeMap<Arc<str>, Vec<u16>> = BTreeMap::new();
        for bucket in self.all_buckets() {
            if let Some(server) = self.server_of(bucket) {
                servers.entry(server).or_default().push(bucket);
            }
        }
        let servers = servers.into_iter().filter_map(|(address, buckets)| {
            let roster = placement::roster_bucket(buckets.iter().copied())?;
            Some(ServerBuckets {
                address,
                buckets: buckets.into(),
                roster,
            })
        });
        servers.collect()
    }
}
