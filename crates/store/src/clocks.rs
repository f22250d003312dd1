//! What the clocks of servers show, as far as their replies tell.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// For each bucket, the clock of its server in ms in the last reply, and when that call was sent.
#[derive(Debug)]
pub(crate) struct Clocks(Mutex<Vec<Option<(Instant, u64)>>>);

impl Clocks {
    pub(crate) fn new(buckets: u32) -> Self {
        Self(Mutex::new(vec![None; buckets as usize]))
    }

    fn lock(&self) -> MutexGuard<'_, Vec<Option<(Instant, u64)>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Notes the clock in the reply to a call that was sent at this moment.
    pub(crate) fn note(&self, bucket: u16, sent_at: Instant, now_ms: u64) {
        if let Some(clock) = self.lock().get_mut(usize::from(bucket)) {
            *clock = Some((sent_at, now_ms));
        }
    }

    /// What the clock will show after `wait`, at the latest; `None` if there was no reply yet about this bucket or one
    /// that is on the same server, of which `beside` is asked only then.
    pub(crate) fn after(
        &self,
        bucket: u16,
        wait: Duration,
        beside: impl FnOnce() -> Vec<u16>,
    ) -> Option<u64> {
        let (sent_at, now_ms) = self
            .of(bucket)
            .or_else(|| beside().into_iter().find_map(|other| self.of(other)))?;
        let passed = (sent_at.elapsed() + wait).as_millis();
        Some(now_ms.saturating_add(u64::try_from(passed).unwrap_or(u64::MAX)) + 1)
    }

    fn of(&self, bucket: u16) -> Option<(Instant, u64)> {
        *self.lock().get(usize::from(bucket))?
    }
}
