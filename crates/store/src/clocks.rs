//! What the clocks of servers show, as far as their replies tell.

use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use crate::Store;
use crate::script::Written;

/// The clock of a server in ms in the last reply that had it, and when that call was sent.
#[derive(Debug, Default)]
pub(crate) struct Clock(Mutex<Option<(Instant, u64)>>);

impl Clock {
    /// Notes the clock in the reply to a call that was sent at this moment.
    fn note(&self, sent_at: Instant, now_ms: u64) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some((sent_at, now_ms));
    }

    /// What the clock will show after `wait`, at the latest; `None` if there was no reply yet.
    fn after(&self, wait: Duration) -> Option<u64> {
        let (sent_at, now_ms) = (*self.0.lock().unwrap_or_else(PoisonError::into_inner))?;
        let passed = (sent_at.elapsed() + wait).as_millis();
        Some(now_ms.saturating_add(u64::try_from(passed).unwrap_or(u64::MAX)) + 1)
    }
}

impl Written {
    /// Notes the clock in the reply.
    pub(crate) fn note_clock(&self, now_ms: u64) {
        if let Some(server) = &self.server {
            server.clock.note(self.sent_at, now_ms);
        }
    }
}

impl Store {
    /// By the clock of the server that has this key, the ms in which a call that is sent now is no longer waited for, as
    /// scripts take it: empty = unknown.
    pub(crate) fn latest(&self, key: &str) -> String {
        if self.now_ms.is_some() {
            return String::new();
        }
        let server = self.inner.link.server_of(key);
        let latest_ms = server.and_then(|it| it.clock.after(self.inner.config.command_timeout));
        latest_ms.map(|ms| ms.to_string()).unwrap_or_default()
    }
}
