//! What a relay shows of itself.

use std::sync::atomic::AtomicBool;
use std::time::Duration;

use parking_lot::Mutex;
use tidegate_service::LogLimit;
use tokio::time::Instant;

use crate::circuit_breaker::CircuitBreaker;
use crate::relay_metrics::RelayMetrics;

/// A sink may reject each of thousands of jobs.
const DEAD_WARNING_INTERVAL: Duration = Duration::from_secs(60);

/// State and counts of a relay.
#[derive(Debug)]
pub(crate) struct RelayState {
    pub(crate) name: String,
    /// Its source, without secrets.
    pub(crate) source: String,
    /// Its sink, without secrets.
    pub(crate) sink: String,
    pub(crate) breaker: CircuitBreaker,
    pub(crate) metrics: RelayMetrics,
    /// Whether the last call that reserves jobs failed.
    pub(crate) source_fails: AtomicBool,
    last_error: Mutex<Option<(Instant, String)>>,
    /// Warnings of jobs that are dead because the sink will never take them.
    pub(crate) dead_warnings: LogLimit,
}

impl RelayState {
    pub(crate) fn new(name: &str, source: String, sink: String, breaker: CircuitBreaker) -> Self {
        Self {
            name: name.to_owned(),
            source,
            sink,
            breaker,
            metrics: RelayMetrics::new(name),
            source_fails: AtomicBool::new(false),
            last_error: Mutex::new(None),
            dead_warnings: LogLimit::every(DEAD_WARNING_INTERVAL),
        }
    }

    pub(crate) fn set_error(&self, text: &str) {
        *self.last_error.lock() = Some((Instant::now(), text.to_owned()));
    }

    /// The last error, and how many seconds ago it was.
    pub(crate) fn last_error(&self) -> Option<(u64, String)> {
        let last = self.last_error.lock();
        last.as_ref()
            .map(|(at, text)| (at.elapsed().as_secs(), text.clone()))
    }
}
