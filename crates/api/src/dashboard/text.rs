//! How numbers, times and durations are written.

use std::time::SystemTime;

use maud::{Markup, html};
use tidegate_core::v1::values::Timestamp;

pub(super) use crate::duration_text::duration_text as duration;

/// A number with a comma before each three digits.
pub(super) fn number(value: u64) -> String {
    let digits = value.to_string();
    let mut text = String::with_capacity(digits.len() + digits.len() / 3);
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

#[expect(
    clippy::disallowed_methods,
    reason = "people are shown how far a time is, to the second"
)]
pub(super) fn now() -> Timestamp {
    SystemTime::now().into()
}

/// Whether a time is past on the clock of this process.
pub(super) fn is_past(at: Timestamp) -> bool {
    at.as_ms() <= now().as_ms()
}

/// A time in UTC, and how far it is from now on the clock of this process.
pub(super) fn time(at: Timestamp) -> Markup {
    let (at_ms, now_ms) = (at.as_ms(), now().as_ms());
    // To the second: it may be off by the difference of two clocks.
    let distance = duration(at_ms.abs_diff(now_ms) / 1000 * 1000);
    html! {
        time datetime=(at) { (at) }
        " "
        small { "(" @if at_ms > now_ms { "in " (distance) } @else { (distance) " ago" } ")" }
    }
}

/// A size such as `1.5 MiB`.
pub(super) fn bytes(value: u64) -> String {
    const UNITS: [&str; 5] = ["KiB", "MiB", "GiB", "TiB", "PiB"];
    if value < 1024 {
        return format!("{value} bytes");
    }
    let (mut size, mut unit) = (value as f64 / 1024.0, 0);
    while size >= 1024.0 && unit + 1 < UNITS.len() {
        size /= 1024.0;
        unit += 1;
    }
    format!("{size:.1} {}", UNITS[unit])
}

/// One or many: `1 job`, `2 jobs`.
pub(super) fn jobs(count: u64) -> String {
    let noun = if count == 1 { "job" } else { "jobs" };
    format!("{} {noun}", number(count))
}

/// The begin of a text, with an ellipsis if it is longer.
pub(super) fn shortened(text: &str, characters: usize) -> String {
    let mut kept: String = text.chars().take(characters).collect();
    if kept.len() < text.len() {
        kept.push('…');
    }
    kept
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_are_easy_to_read() {
        assert_eq!(number(0), "0");
        assert_eq!(number(999), "999");
        assert_eq!(number(1_234_567), "1,234,567");
        assert_eq!(bytes(1023), "1023 bytes");
        assert_eq!(bytes(1536), "1.5 KiB");
        assert_eq!(bytes(u64::MAX), "16384.0 PiB");
        assert_eq!(jobs(1), "1 job");
        assert_eq!(jobs(1000), "1,000 jobs");
        assert_eq!(shortened("äöü", 3), "äöü");
        assert_eq!(shortened("äöüß", 3), "äöü…");
    }
}
