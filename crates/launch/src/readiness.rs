//! Readiness checks of Redis.

use tidegate_service::HealthCheck;
use tidegate_store::{Store, StoreError};

/// Returns a check that pings a Redis deployment. `name` is its public name, such as `pool
/// default`.
#[must_use]
pub fn redis_check(name: impl Into<String>, store: Store) -> HealthCheck {
    HealthCheck::new(name, move || {
        let store = store.clone();
        async move { store.ping().await.map_err(|error| public_reason(&error)) }
    })
}

/// Returns why a call failed, as a public text: without the details of the server or the system,
/// which belong in the logs.
#[must_use]
pub fn public_reason(error: &StoreError) -> String {
    match error {
        StoreError::Unavailable { reason, .. } => format!("redis is unavailable ({reason})"),
        StoreError::Corrupt(_) | StoreError::Invalid(_) => "unexpected data in redis".to_owned(),
    }
}
