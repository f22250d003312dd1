//! When a job was due, and whether our clock and the server's agree.
//!
//! The wire gives delays in whole seconds, yet the moment a job is due is known to the millisecond: the
//! first 48 bits of its id are the moment of its creation in ms by the server's clock (so it is with
//! lmstfy, too), and it is due its delay later. The id's moment is cut to whole ms, so a lateness is
//! shown up to 1 ms too large and an early job is never missed by more than that.
//!
//! On one machine there is one clock. Elsewhere each publish gives bounds: the creation lies between its
//! sending and its answer. If all of them together leave no room for equal clocks, no lateness can be told.

use std::time::{SystemTime, UNIX_EPOCH};

/// What a defect that hangs on the clocks is told with.
pub(crate) const SAME: &str = "due = time in the id + delay; received = our clock";

/// Now, in µs since 1970.
pub(crate) fn now_us() -> u64 {
    let since = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .unwrap_or_default();
    u64::try_from(since.as_micros()).unwrap_or(u64::MAX)
}

/// The time in an id, in ms since 1970; `None` if it is no ULID. A versioned id has a digit before it.
pub(crate) fn created_ms(id: &str) -> Option<u64> {
    const TIME_DIGITS: usize = 10;
    const DIGITS: &[u8; 32] = b"0123456789ABCDEFGHJKMNPQRSTVWXYZ";
    const ULID: usize = 26;
    let text = id.as_bytes();
    let text = text.get(text.len().checked_sub(ULID)?..)?;
    text[..TIME_DIGITS].iter().try_fold(0, |time, digit| {
        let value = DIGITS.iter().position(|known| known == digit)?;
        Some(time << 5 | value as u64)
    })
}

/// How far the server's clock may be ahead of ours, in µs.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ClockBounds {
    least: i64,
    most: i64,
}

impl ClockBounds {
    pub(crate) const fn new() -> Self {
        Self {
            least: i64::MIN,
            most: i64::MAX,
        }
    }

    /// A job with this time in its id was sent and answered at these moments of ours.
    pub(crate) fn narrow(&mut self, created_ms: u64, sent_us: u64, answered_us: u64) {
        let created_us = i64::try_from(created_ms * 1000).unwrap_or(i64::MAX);
        self.least = self.least.max(created_us - answered_us as i64);
        self.most = self.most.min(created_us + 1000 - sent_us as i64);
    }

    /// Whether both clocks may be equal.
    pub(crate) const fn may_agree(self) -> bool {
        self.least <= 0 && self.most >= 0
    }

    /// In words.
    pub(crate) fn shown(self) -> String {
        let ms = |us: i64| us as f64 / 1000.0;
        format!(
            "the server's clock is {:.1} to {:.1} ms ahead of ours",
            ms(self.least),
            ms(self.most)
        )
    }
}

#[cfg(test)]
mod tests {
    use tidegate_core::JobId;

    use super::*;

    #[test]
    fn an_id_tells_its_time() {
        let id = JobId::new(1_763_700_000_123, 255, 7, 0xBEEF).to_string();
        assert_eq!(created_ms(&id), Some(1_763_700_000_123));
        assert_eq!(created_ms(&format!("1{id}")), Some(1_763_700_000_123));
        assert_eq!(created_ms("short"), None);
        assert_eq!(created_ms(&"é".repeat(13)), None);
    }

    #[test]
    fn bounds_show_a_clock_that_is_off() {
        let mut bounds = ClockBounds::new();
        bounds.narrow(10, 9_800, 10_400);
        assert!(bounds.may_agree(), "{}", bounds.shown());
        bounds.narrow(5_020, 15_000, 15_200);
        assert!(!bounds.may_agree());
        assert!(bounds.least > 5_000_000, "{}", bounds.shown());
    }
}
