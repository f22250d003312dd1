//! Counts and logs failed calls to Redis.

use std::sync::LazyLock;
use std::time::Duration;

use prometheus::IntCounter;
use tidegate_daemon::LogLimit;
use tidegate_daemon::metrics::counter;
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
    static LOG_LIMIT: LogLimit = LogLimit::every(Duration::from_secs(1));
    STORAGE_FAILURES.inc();
    if LOG_LIMIT.is_due() {
        tracing::warn!(%error, "call to redis failed; further failures within a second are logged at level debug");
    } else {
        tracing::debug!(%error, "call to redis failed");
    }
}
