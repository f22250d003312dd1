//! The clocks of servers, as known from their replies.

use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// The time in the last reply that contained one, in ms since 1970, and when that call was sent.
#[derive(Debug, Default)]
pub(crate) struct Clock(Mutex<Option<(Instant, u64)>>);

impl Clock {
    /// Records the time in the reply to a call that was sent at `sent_at`.
    pub(crate) fn record(&self, sent_at: Instant, now_ms: u64) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some((sent_at, now_ms));
    }

    /// An upper bound of the server's time after `wait`, in ms; `None` if there was no reply yet.
    pub(crate) fn after(&self, wait: Duration) -> Option<u64> {
        let (sent_at, now_ms) = (*self.0.lock().unwrap_or_else(PoisonError::into_inner))?;
        let passed = (sent_at.elapsed() + wait).as_millis();
        Some(now_ms.saturating_add(u64::try_from(passed).unwrap_or(u64::MAX)) + 1)
    }
}
