//! Readiness checks of Redis.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::health::HealthCheck;
use tidegate_store::{Store, StoreError};

const REPLACED: &str =
    "Redis was emptied or replaced, see \"Redis was replaced\" in docs/operating.md";

/// Returns a check that a Redis deployment takes writes, and that it has the data that this process connected to.
/// `name` is its public name, such as `pool default`.
#[must_use]
pub fn redis_check(name: impl Into<String>, store: Store) -> HealthCheck {
    let name = name.into();
    let layout = Arc::new(LayoutWatch {
        deployment: name.clone(),
        was_replaced: AtomicBool::new(false),
    });
    HealthCheck::new(name, move || {
        let (store, layout) = (store.clone(), Arc::clone(&layout));
        async move {
            // Both are sent at once. A failed check ends the wait for the other answer.
            let found = async { Ok(store.has_other_stamp().await) };
            let checked = tokio::try_join!(store.check_writable(), found);
            let ((), has_other_stamp) = checked.map_err(|error| public_reason(&error))?;
            layout.outcome(has_other_stamp)
        }
    })
}

/// Logs when the layout of a deployment differs for the first time, and when it is back.
struct LayoutWatch {
    deployment: String,
    was_replaced: AtomicBool,
}

impl LayoutWatch {
    /// An unknown layout leaves the outcome as it was.
    fn outcome(&self, has_other_stamp: Option<bool>) -> Result<(), String> {
        let before = self.was_replaced.load(Ordering::Relaxed);
        let is_replaced = has_other_stamp.unwrap_or(before);
        self.was_replaced.store(is_replaced, Ordering::Relaxed);
        let deployment = self.deployment.as_str();
        match (before, is_replaced) {
            (false, true) => tracing::error!(
                deployment,
                "the key tg:layout is missing or another one: Redis was emptied or replaced; not ready until it is back, \
                 or until a restart: see \"Redis was replaced\" in docs/operating.md"
            ),
            (true, false) => tracing::info!(deployment, "Redis has the expected layout again"),
            _ => {}
        }
        match is_replaced {
            true => Err(REPLACED.to_owned()),
            false => Ok(()),
        }
    }
}

/// Returns why a call failed, as a public text: without the details of the server or the system,
/// which belong in the logs.
#[must_use]
pub fn public_reason(error: &StoreError) -> String {
    match error {
        StoreError::Unavailable { reason, .. } => format!("redis is unavailable ({reason})"),
        _ => "unexpected data in redis".to_owned(),
    }
}
