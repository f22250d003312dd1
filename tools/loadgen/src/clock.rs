//! Due times of jobs, and whether the local clock and the server's agree.
//!
//! The wire gives delays in whole seconds, yet the due time of a job is known to the millisecond: the first
//! 48 bits of its id are its creation time in ms by the server's clock (in lmstfy too), and the job is due
//! its delay later. The creation time is truncated to whole ms, so a measured lateness is up to 1 ms too
//! large, and a job that is early by less than 1 ms may go undetected.
//!
//! On one machine there is one clock. Otherwise each publish gives bounds: the creation is between the
//! request and its answer. If these bounds together exclude equal clocks, lateness cannot be measured.

use std::time::{SystemTime, UNIX_EPOCH};

/// Explains in a problem's text which clocks were compared.
pub(crate) const SAME: &str = "due = time in the id + delay; received = our clock";

/// Current time, in µs since 1970.
#[expect(
    clippy::disallowed_methods,
    reason = "times of several processes are compared"
)]
pub(crate) fn now_us() -> u64 {
    let since = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .unwrap_or_default();
    u64::try_from(since.as_micros()).unwrap_or(u64::MAX)
}

/// Returns the creation time in an id, in ms since 1970; `None` if the id is not a ULID. A versioned id has
/// one more digit in front.
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

/// Bounds of how far the server's clock is ahead of the local one, in µs.
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

    /// Narrows the bounds by a publish: the time in the job's id, and when the request was sent and
    /// answered by the local clock.
    pub(crate) fn narrow(&mut self, created_ms: u64, sent_us: u64, answered_us: u64) {
        let created_us = i64::try_from(created_ms * 1000).unwrap_or(i64::MAX);
        self.least = self.least.max(created_us - answered_us as i64);
        self.most = self.most.min(created_us + 1000 - sent_us as i64);
    }

    /// Whether the bounds allow equal clocks.
    pub(crate) const fn may_agree(self) -> bool {
        self.least <= 0 && self.most >= 0
    }

    /// Describes the bounds.
    pub(crate) fn describe(self) -> String {
        let ms = |us: i64| us as f64 / 1000.0;
        format!(
            "the server's clock is {:.1} to {:.1} ms ahead of ours",
            ms(self.least),
            ms(self.most)
        )
    }
}

/// An instant of an answer, in ms since 1970.
pub(crate) fn since_1970_ms(rfc3339: &str) -> Option<u64> {
    let time: jiff::Timestamp = rfc3339.parse().ok()?;
    u64::try_from(time.as_millisecond()).ok()
}

#[cfg(test)]
mod tests {
    use tidegate_core::JobId;

    use super::*;

    #[test]
    fn an_id_contains_its_creation_time() {
        let id = JobId::new(1_763_700_000_123, 255, 7, 0xBEEF).to_string();
        assert_eq!(created_ms(&id), Some(1_763_700_000_123));
        assert_eq!(created_ms(&format!("1{id}")), Some(1_763_700_000_123));
        assert_eq!(created_ms("short"), None);
        assert_eq!(created_ms(&"é".repeat(13)), None);
    }

    #[test]
    fn bounds_detect_a_clock_offset() {
        let mut bounds = ClockBounds::new();
        bounds.narrow(10, 9_800, 10_400);
        assert!(bounds.may_agree(), "{}", bounds.describe());
        bounds.narrow(5_020, 15_000, 15_200);
        assert!(!bounds.may_agree());
        assert!(bounds.least > 5_000_000, "{}", bounds.describe());
    }

    #[test]
    fn times_of_answers_are_read() {
        assert_eq!(since_1970_ms("1970-01-01T00:00:01.002Z"), Some(1002));
        assert_eq!(since_1970_ms("soon"), None);
    }
}
