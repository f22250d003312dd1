//! Times and spans of a history, by one clock.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use serde::{Deserialize, Serialize};
use tidegate_core::v1::values::Timestamp;

/// A time in µs since 1970, by the clock of this machine, which is also Redis's clock.
pub type UnixMicros = u64;

/// Returns the current time.
#[must_use]
#[expect(
    clippy::disallowed_methods,
    reason = "times of several processes are compared"
)]
pub fn now() -> UnixMicros {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    since.map_or(0, |time| {
        u64::try_from(time.as_micros()).unwrap_or(u64::MAX)
    })
}

/// Returns the time of an instant on the wire.
pub(crate) const fn micros(at: Timestamp) -> UnixMicros {
    at.as_ms() * 1000
}

/// Returns a duration in µs.
pub(crate) fn in_micros(time: Duration) -> u64 {
    u64::try_from(time.as_micros()).unwrap_or(u64::MAX)
}

/// Truncates to ms, the resolution of Redis's times.
pub(crate) const fn truncate_to_ms(moment: UnixMicros) -> UnixMicros {
    const MS: u64 = 1000;
    moment / MS * MS
}

/// A time span; both ends are inclusive.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Span {
    /// Its begin.
    pub from: UnixMicros,
    /// Its end.
    pub to: UnixMicros,
}

impl Span {
    /// Whether the two spans overlap or touch.
    #[must_use]
    pub const fn overlaps(&self, other: &Self) -> bool {
        self.from <= other.to && other.from <= self.to
    }

    /// Returns the part that both spans have.
    #[must_use]
    pub fn intersection(&self, other: &Self) -> Option<Self> {
        self.overlaps(other).then(|| Self {
            from: self.from.max(other.from),
            to: self.to.min(other.to),
        })
    }
}

/// Merges overlapping spans. The input must be sorted by begin.
pub(crate) fn merge_spans(spans: impl Iterator<Item = Span>) -> Vec<Span> {
    let mut all: Vec<Span> = Vec::new();
    for span in spans {
        match all.last_mut() {
            Some(last) if last.overlaps(&span) => last.to = last.to.max(span.to),
            _ => all.push(span),
        }
    }
    all
}
