use std::sync::Arc;

use futures_util::{StreamExt, TryStreamExt, stream};
use redis::Cmd;

use crate::error::StoreError;
use crate::store::Store;

/// Buckets of a server that are read at the same time, over one connection.
const BUCKETS_AT_ONCE: usize = 16;

/// The pumps of a server, and which of its buckets each leads.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServerLeaders {
    /// The address of the server.
    pub address: Arc<str>,
    /// The pumps on its roster, in the order of their names. One that was killed may be among them until its membership
    /// ends.
    pub pumps: Vec<String>,
    /// Its buckets, each with the name of the pump that holds its lock.
    pub leaders: Vec<(u16, Option<String>)>,
}

impl Store {
    /// The pumps of all servers and the buckets that they lead. Buckets are read separately, so this is not a snapshot.
    ///
    /// # Errors
    /// Redis is unavailable.
    pub async fn leaders(&self) -> Result<Vec<ServerLeaders>, StoreError> {
        let mut servers = Vec::new();
        for server in self.buckets_by_server() {
            let roster = Cmd::zrange(self.keys(server.roster).roster(), 0, -1);
            let mut pumps: Vec<String> = self.command(&roster).await?;
            // The member without a name is the clock of the roster.
            pumps.retain(|pump| !pump.is_empty());
            pumps.sort();
            let buckets: Vec<u16> = server.buckets.to_vec();
            let calls = buckets.into_iter().map(|bucket| async move {
                let lock = Cmd::get(self.keys(bucket).lock());
                Ok::<_, StoreError>((bucket, self.command(&lock).await?))
            });
            let calls = stream::iter(calls).buffered(BUCKETS_AT_ONCE);
            servers.push(ServerLeaders {
                leaders: calls.try_collect().await?,
                address: server.address,
                pumps,
            });
        }
        Ok(servers)
    }
}
