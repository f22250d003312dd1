//! Several deployments at once: the pools of a daemon.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use crate::server_check::info;
use crate::{ConnectError, Store, StoreConfig, StoreError};

/// The most connections to one Redis deployment: up to 3 for each primary, up to 4 for each durability, sentinels,
/// and those that are made before old ones are closed. On a cluster this suffices for some 16 primaries.
pub const OPEN_FILES_OF_A_STORE: u64 = 128;

/// Why one of several stores cannot be used.
#[derive(Debug, thiserror::Error)]
#[error("pool {pool}: {source}")]
pub struct PoolError {
    /// The name of its pool.
    pub pool: String,
    /// Why, and what to do about it.
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
            let connected = Self::connect_within(config, patience).await;
            let store = connected.map_err(|source| PoolError {
                pool: pool.clone(),
                source,
            })?;
            stores.insert(pool.clone(), store);
        }
        Ok(stores)
    }

    /// Refuses pools that move to a pool in the same database of the same Redis, whatever its address.
    ///
    /// # Errors
    /// The first pool that does, or whose Redis does not answer.
    pub async fn check_moves(
        pools: &BTreeMap<String, StoreConfig>,
        stores: &BTreeMap<String, Self>,
    ) -> Result<(), PoolError> {
        for (pool, config) in pools {
            let Some(target) = &config.migrate_to else {
                continue;
            };
            let (Some(from), Some(to)) = (stores.get(pool), stores.get(target)) else {
                continue;
            };
            let checked = from.check_is_apart_from(to, target).await;
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

    /// What no two deployments share: the processes of its servers, and the number of its database.
    async fn databases(&self) -> Result<BTreeSet<(String, i64)>, StoreError> {
        let mut databases = BTreeSet::new();
        for server in self.inner.link.servers() {
            let session = server.session(self.inner.config.command_timeout);
            let told = info(&session).await?;
            let database = server.client.get_connection_info().redis_settings().db();
            // A server behind something that hides its id is not compared.
            databases.extend(told.get("run_id").map(|id| (id.clone(), database)));
        }
        Ok(databases)
    }
}
