//! Counts and logs failed calls to Redis.

use std::sync::LazyLock;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use prometheus::IntCounter;
use tidegate_service::metrics::counter;
use tidegate_store::StoreError;

static STORAGE_FAILURES: LazyLock<IntCounter> = LazyLock::new(|| {
    counter(
        "tidegate_storage_failures_total",
        "Number of calls to Redis that failed.",
    )
});

/// Shows the metric before the first failure, so that an alert can see the change.
pub(crate) fn register() {
    LazyLock::force(&STORAGE_FAILURES);
}

/// Counts and logs a failed call to Redis. While Redis is unavailable thousands of calls fail, so at most one warning
/// is logged each second; the others have level debug.
pub fn record_store_error(error: &StoreError) {
    static BEGAN_AT: LazyLock<Instant> = LazyLock::new(Instant::now);
    static LAST_WARNING_S: AtomicU64 = AtomicU64::new(0);
    STORAGE_FAILURES.inc();
    let now_s = BEGAN_AT.elapsed().as_secs() + 1;
    if LAST_WARNING_S.swap(now_s, Ordering::Relaxed) == now_s {
        tracing::debug!(%error, "call to redis failed");
    } else {
        tracing::warn!(%error, "call to redis failed; further failures within this second are logged at level debug");
    }
}
