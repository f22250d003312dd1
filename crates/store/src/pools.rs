//! Several deployments at once: the pools of a daemon.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::{ConnectError, Store, StoreConfig};

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
}
