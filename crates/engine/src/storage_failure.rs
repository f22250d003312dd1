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
    static LOG_LIMIT: LogLimit = LogLimit::new();
    STORAGE_FAILURES.inc();
    if LOG_LIMIT.is_first_within_second() {
        tracing::warn!(%error, "call to redis failed; further failures within this second are logged at level debug");
    } else {
        tracing::debug!(%error, "call to redis failed");
    }
}

/// Limits how often a message is logged that each of thousands of requests may cause.
#[derive(Debug)]
pub(crate) struct LogLimit {
    /// The second of the last message, counted from the first use of any limit; 0 = no message yet.
    last_s: AtomicU64,
}

impl LogLimit {
    pub(crate) const fn new() -> Self {
        let last_s = AtomicU64::new(0);
        Self { last_s }
    }

    /// Whether this is the first call within the current second.
    pub(crate) fn is_first_within_second(&self) -> bool {
        static BEGAN_AT: LazyLock<Instant> = LazyLock::new(Instant::now);
        let now_s = BEGAN_AT.elapsed().as_secs() + 1;
        self.last_s.swap(now_s, Ordering::Relaxed) != now_s
    }
}
