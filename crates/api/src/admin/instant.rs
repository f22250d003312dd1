//! Instants as text: RFC 3339 in UTC.

use std::time::{Duration, UNIX_EPOCH};

/// The text of an instant, in ms since 1970, with three digits behind the seconds.
pub(super) fn text(instant_ms: u64) -> String {
    let instant = UNIX_EPOCH + Duration::from_millis(instant_ms);
    humantime::format_rfc3339_millis(instant).to_string()
}

/// The instant of a text that ends with `Z`, in ms since 1970; `None` if it is none. A finer instant is rounded up, so
/// that nothing that waits for it is early.
pub(super) fn parse(text: &str) -> Option<u64> {
    let instant = humantime::parse_rfc3339(text).ok()?;
    let since = instant.duration_since(UNIX_EPOCH).ok()?;
    u64::try_from(since.as_nanos().div_ceil(1_000_000)).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn instants_round_trip_and_are_rounded_up() {
        assert_eq!(text(1_795_263_000_001), "2026-11-21T12:10:00.001Z");
        assert_eq!(parse("2026-11-21T12:10:00.001Z"), Some(1_795_263_000_001));
        assert_eq!(
            parse("2026-11-21T12:10:00.0010001Z"),
            Some(1_795_263_000_002)
        );
        for wrong in [
            "",
            "2026-11-21",
            "2026-11-21T12:10:00",
            "2026-13-01T00:00:00Z",
            "1969-12-31T23:59:59Z",
        ] {
            assert_eq!(parse(wrong), None, "{wrong}");
        }
        // The latest instant of a policy.
        assert_eq!(parse(&text(1 << 44)), Some(1 << 44));
    }
}
