//! The one grammar of durations: in requests to `/v1`, in settings and in arguments of commands.
//!
//! A compact text such as `1500ms`, `90s`, `1.5h`, `1h30m` or `3d`, with units from the longest to the shortest, each
//! at most once; or ISO 8601 without years and months, such as `PT5S` or `P1DT2H`. A day has 24 hours. A number without
//! a unit is refused: it could be seconds or milliseconds.

use std::time::Duration;

use serde::de::Error;
use serde::{Deserialize, Deserializer, Serializer};

/// The accepted forms, for errors.
pub const EXPECTED: &str =
    "a duration: use 1500ms, 90s, 1.5h, 1h30m or 3d, or ISO 8601 such as PT5M";

/// The units of the compact form, longest first, in ms.
const COMPACT: [(&str, u64); 5] = [
    ("d", 86_400_000),
    ("h", 3_600_000),
    ("m", 60_000),
    ("s", 1_000),
    ("ms", 1),
];
/// The units of ISO 8601 in front of the `T`, and behind it.
const ISO_DAYS: [(&str, u64); 2] = [("W", 604_800_000), ("D", 86_400_000)];
const ISO_TIME: [(&str, u64); 3] = [("H", 3_600_000), ("M", 60_000), ("S", 1_000)];

const NANOS_PER_MS: u128 = 1_000_000;
/// A fraction has at most so many digits.
const FRACTION_DIGITS_MAX: usize = 9;

/// Why a text is no duration.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum InvalidDuration {
    /// It has none of the forms.
    #[error("{0:?} is not {EXPECTED}")]
    Malformed(String),
    /// It is a number.
    #[error("{0} has no unit: write {0}s or {0}ms")]
    WithoutUnit(String),
    /// Its number is too large.
    #[error("{0:?} is too long")]
    TooLong(String),
}

/// Why a part of a text is no part of a duration.
enum BadPart {
    Malformed,
    TooLong,
}

/// Reads a duration. Fractions of a nanosecond are rounded up.
///
/// # Errors
/// The text is no duration, or too long a one.
pub fn parse(text: &str) -> Result<Duration, InvalidDuration> {
    if nanos(text, 1).is_ok() {
        return Err(InvalidDuration::WithoutUnit(text.to_owned()));
    }
    let nanos = match text.strip_prefix(['P', 'p']) {
        Some(rest) => iso_8601(&rest.to_ascii_uppercase()),
        None if text.is_empty() => Err(BadPart::Malformed),
        None => sum(text, &COMPACT),
    };
    nanos.and_then(from_nanos).map_err(|reason| match reason {
        BadPart::Malformed => InvalidDuration::Malformed(text.to_owned()),
        BadPart::TooLong => InvalidDuration::TooLong(text.to_owned()),
    })
}

/// The shortest compact text of a duration, which [`parse`] reads. Rounds up to whole milliseconds.
#[must_use]
pub fn text(duration: Duration) -> String {
    let mut rest_ms = duration.as_nanos().div_ceil(NANOS_PER_MS);
    if rest_ms == 0 {
        return "0s".to_owned();
    }
    let mut text = String::new();
    for (name, unit_ms) in COMPACT {
        let number = rest_ms / u128::from(unit_ms);
        rest_ms %= u128::from(unit_ms);
        if number > 0 {
            text += &format!("{number}{name}");
        }
    }
    text
}

fn from_nanos(nanos: u128) -> Result<Duration, BadPart> {
    let seconds = u64::try_from(nanos / 1_000_000_000).map_err(|_| BadPart::TooLong)?;
    let rest = u32::try_from(nanos % 1_000_000_000).map_err(|_| BadPart::TooLong)?;
    Ok(Duration::new(seconds, rest))
}

/// The part after the `P`.
fn iso_8601(text: &str) -> Result<u128, BadPart> {
    let (days, time) = match text.split_once('T') {
        Some((_, "")) => return Err(BadPart::Malformed),
        Some((days, time)) => (days, time),
        None if text.is_empty() => return Err(BadPart::Malformed),
        None => (text, ""),
    };
    let total = sum(days, &ISO_DAYS)?.checked_add(sum(time, &ISO_TIME)?);
    total.ok_or(BadPart::TooLong)
}

/// The sum of numbers with units, from the longest unit to the shortest, in ns.
fn sum(text: &str, units: &[(&str, u64)]) -> Result<u128, BadPart> {
    let is_of_number = |letter: char| letter.is_ascii_digit() || letter == '.';
    let mut units = units.iter();
    let (mut rest, mut total) = (text, 0_u128);
    while !rest.is_empty() {
        let unit_at = rest.find(|letter| !is_of_number(letter));
        let (number, after) = rest.split_at(unit_at.ok_or(BadPart::Malformed)?);
        let end = after.find(is_of_number).unwrap_or(after.len());
        let (unit, next) = after.split_at(end);
        let known = units.find(|(name, _)| *name == unit);
        let (_, unit_ms) = known.ok_or(BadPart::Malformed)?;
        let part = nanos(number, *unit_ms)?;
        total = total.checked_add(part).ok_or(BadPart::TooLong)?;
        rest = next;
    }
    Ok(total)
}

/// A number of units, which may have a fraction, in ns.
fn nanos(number: &str, unit_ms: u64) -> Result<u128, BadPart> {
    let unit = u128::from(unit_ms) * NANOS_PER_MS;
    let (whole, fraction) = number.split_once('.').unwrap_or((number, "0"));
    let is_digits = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    if !is_digits(whole) || !is_digits(fraction) || fraction.len() > FRACTION_DIGITS_MAX {
        return Err(BadPart::Malformed);
    }
    let whole: u64 = whole.parse().map_err(|_| BadPart::TooLong)?;
    let fraction_of: u128 = 10_u128.pow(fraction.len() as u32);
    let fraction: u128 = fraction.parse().map_err(|_| BadPart::TooLong)?;
    Ok(u128::from(whole) * unit + (fraction * unit).div_ceil(fraction_of))
}

/// For `#[serde(with = "tidegate_core::duration")]`: writes the text of a duration.
///
/// # Errors
/// The serializer fails.
pub fn serialize<S: Serializer>(duration: &Duration, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(&text(*duration))
}

/// For `#[serde(with = "tidegate_core::duration")]`: reads the text of a duration.
///
/// # Errors
/// It is no such text.
pub fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Duration, D::Error> {
    let text = String::deserialize(deserializer)?;
    parse(&text).map_err(D::Error::custom)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn each_form_is_read() {
        for (text, ms) in [
            ("0s", 0),
            ("1500ms", 1_500),
            ("90s", 90_000),
            ("1.5s", 1_500),
            ("0.25h", 900_000),
            ("1h30m", 5_400_000),
            ("1h1.5m", 3_690_000),
            ("3d", 259_200_000),
            ("1d2h3m4s5ms", 93_784_005),
            ("90m", 5_400_000),
            ("PT5M", 300_000),
            ("PT5S", 5_000),
            ("pt5s", 5_000),
            ("P1DT2H", 93_600_000),
            ("P2W", 1_209_600_000),
            ("PT0.5S", 500),
            ("PT1H30M", 5_400_000),
        ] {
            assert_eq!(parse(text), Ok(Duration::from_millis(ms)), "{text}");
        }
        assert_eq!(parse("0.000000001ms"), Ok(Duration::from_nanos(1)));
    }

    #[test]
    fn a_number_without_a_unit_is_refused_with_the_remedy() {
        for text in ["0", "30", "1.5"] {
            let error = parse(text).unwrap_err().to_string();
            let remedy = format!("{text} has no unit: write {text}s or {text}ms");
            assert_eq!(error, remedy);
        }
    }

    #[test]
    fn other_texts_are_refused_with_the_accepted_forms() {
        for text in [
            "",
            " ",
            "-5",
            "1_000",
            "1e3",
            "-1s",
            "+1s",
            "1e99s",
            "5 minutes",
            "5min",
            "1h 30m",
            "30m1h",
            "1m1m",
            "ms",
            ".",
            ".5",
            "5.",
            "1.2.3",
            ".5s",
            "1.s",
            "1.5.5s",
            "5M",
            "P",
            "PT",
            "P1DT",
            "P1M",
            "P1Y",
            "-PT5M",
            "PT-5M",
            "P1D1H",
            "P1H",
            "PT1D",
            "PT1M1H",
            "1y",
            "1w",
            "1us",
            "٣s",
            "0x10",
            "1s ",
            "inf",
            "NaN",
        ] {
            let error = parse(text).unwrap_err();
            assert!(matches!(error, InvalidDuration::Malformed(_)), "{text:?}");
            assert!(error.to_string().contains(EXPECTED), "{error}");
        }
        for text in [
            "99999999999999999999d",
            "18446744073709551615d",
            "P99999999999999999999W",
        ] {
            assert_eq!(parse(text), Err(InvalidDuration::TooLong(text.to_owned())));
        }
    }

    #[test]
    fn the_shortest_text_is_written() {
        for (ms, written) in [
            (0, "0s"),
            (1_500, "1s500ms"),
            (60_000, "1m"),
            (5_400_000, "1h30m"),
            (259_200_000, "3d"),
        ] {
            assert_eq!(text(Duration::from_millis(ms)), written);
        }
        assert_eq!(text(Duration::from_micros(1)), "1ms");
    }

    proptest! {
        #[test]
        fn every_duration_is_read_as_it_is_written(ms in 0..=u64::MAX / 2) {
            let duration = Duration::from_millis(ms);
            prop_assert_eq!(parse(&text(duration)), Ok(duration));
        }

        #[test]
        fn any_text_is_read_or_refused_without_a_panic(text in "\\PC{0,80}|[0-9dhmsPT.]{0,30}") {
            let _ = parse(&text);
        }
    }
}
