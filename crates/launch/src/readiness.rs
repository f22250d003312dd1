//! What the daemons depend on.

use tidegate_service::Check;
use tidegate_store::{Store, StoreError};

/// Whether a Redis deployment answers, under a name such as `pool default`.
#[must_use]
pub fn redis_check(name: impl Into<String>, store: Store) -> Check {
    Check::new(name, move || {
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
