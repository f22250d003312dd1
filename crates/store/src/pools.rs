//! The pools of a daemon: one deployment each.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use crate::config::StoreConfig;
use crate::connect::with_patience;
use crate::connect_error::ConnectError;
use crate::error::StoreError;
use crate::server_info::ServerInfo;
use crate::store::Store;

/// Maximum number of connections to one Redis deployment: up to 3 for each primary, up to 4 for each durability,
/// sentinels, and new connections made before old ones are closed. It is enough for a cluster of about 16 primaries.
pub const OPEN_FILES_OF_A_STORE: u64 = 128;

/// Why a pool cannot be used.
#[derive(Debug, thiserror::Error)]
#[error("pool {pool}: {source}")]
pub struct PoolError {
    /// The name of the pool.
    pub pool: String,
    /// The cause, with the remedy.
    pub source: ConnectError,
}

impl Store {
    /// Connects to every pool, one after the other, as [`Store::connect_within`] does.
    ///
    /// # Errors
    /// The first pool that cannot be used.
    pub async fn connect_pools(
        pools: &BTreeMap<String, StoreConfig>,
        patience: Duration,
    ) -> Result<BTreeMap<String, Self>, PoolError> {
        let mut stores = BTreeMap::new();
        for (pool, config) in pools {
            let connected = Self::connect_pool(Some(pool.as_str()), config, patience).await;
            let store = connected.map_err(|source| PoolError {
                pool: pool.clone(),
                source,
            })?;
            stores.insert(pool.clone(), store);
        }
        Ok(stores)
    }

    /// Checks that no pool moves (`migrate_to`) to a pool in the same database of the same Redis, even if their
    /// addresses differ. While a server is unavailable, it retries every second for up to `patience`.
    ///
    /// # Errors
    /// The first pool that does, or whose Redis does not reply.
    pub async fn check_moves(
        pools: &BTreeMap<String, StoreConfig>,
        stores: &BTreeMap<String, Self>,
        patience: Duration,
    ) -> Result<(), PoolError> {
        for (pool, config) in pools {
            let Some(target) = &config.migrate_to else {
                continue;
            };
            let (Some(from), Some(to)) = (stores.get(pool), stores.get(target)) else {
                continue;
            };
            let check = async || from.check_is_apart_from(to, target).await;
            let checked = with_patience(Some(pool), config, patience, check).await;
            checked.map_err(|source| PoolError {
                pool: pool.clone(),
                source,
            })?;
        }
        Ok(())
    }

    async fn check_is_apart_from(&self, other: &Self, name: &str) -> Result<(), ConnectError> {
        let (ours, theirs) = (self.databases().await?, other.databases().await?);
        match ours.intersection(&theirs).next() {
            None => Ok(()),
            Some((run_id, database)) => Err(ConnectError::BadConfig(format!(
                "migrate_to = {name:?} names the Redis that this pool uses already (run_id {run_id}, database \
                 {database}): name another one, or remove migrate_to"
            ))),
        }
    }

    /// The run id and database number of each server. No two deployments share a pair.
    async fn databases(&self) -> Result<BTreeSet<(String, i64)>, StoreError> {
        let mut databases = BTreeSet::new();
        for server in self.inner.link.servers() {
            let session = server.session(self.inner.config.command_timeout);
            let info = ServerInfo::read(&session, &["server"]).await?;
            let database = server.client.get_connection_info().redis_settings().db();
            // A server without a run id, for example behind a proxy that hides it, is not compared.
            databases.extend(info.run_id().map(|id| (id.to_owned(), database)));
        }
        Ok(databases)
    }
}
