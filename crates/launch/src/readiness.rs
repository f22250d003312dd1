//! What the daemons depend on.

use tidegate_service::Check;
use tidegate_store::{Store, StoreError};

/// Whether the Redis of a pool answers.
#[must_use]
pub fn pool_check(pool: &str, store: Store) -> Check {
    Check::new(format!("pool {pool}"), move || {
        let store = store.clone();
        async move { store.ping().await.map_err(|error| reason(&error)) }
    })
}

/// Why a call failed, for everybody: what the server or the system said about it is for the logs.
#[must_use]
pub fn reason(error: &StoreError) -> String {
    match error {
        StoreError::Unavailable { reason, .. } => format!("redis is unavailable ({reason})"),
        StoreError::Corrupt(_) | StoreError::Invalid(_) => "unexpected data in redis".to_owned(),
    }
}
