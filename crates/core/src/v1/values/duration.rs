//! Durations.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use crate::duration::{EXPECTED, InvalidDuration};
use serde::de::{Error, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::limits::{TIME_MS_MAX, TIME_TEXT_BYTES_MAX};
use crate::v1::problem::InvalidValue;

/// A duration in whole milliseconds, at most [`TIME_MS_MAX`].
///
/// Requests give a text: a compact one such as `1500ms`, `90s`, `1.5h`, `1h30m` or `3d`, or ISO 8601 without years and
/// months, such as `PT5M`; days have 24 hours. Fractions of 1 ms are rounded up. Answers have an integer, in a field
/// whose name ends in `_ms`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
pub struct DurationMs(u64);

impl DurationMs {
    /// No time.
    pub const ZERO: Self = Self(0);
    /// The longest duration.
    pub const MAX: Self = Self(TIME_MS_MAX);

    /// A duration of so many milliseconds; the longest one if there are more than [`TIME_MS_MAX`].
    pub const fn saturating(ms: u64) -> Self {
        if ms > TIME_MS_MAX {
            return Self::MAX;
        }
        Self(ms)
    }

    /// Milliseconds.
    pub const fn as_ms(self) -> u64 {
        self.0
    }
}

fn too_long(what: impl fmt::Display) -> InvalidValue {
    InvalidValue::new(format!(
        "{what} is too long; the longest duration is {TIME_MS_MAX} ms"
    ))
}

impl FromStr for DurationMs {
    type Err = InvalidValue;

    fn from_str(text: &str) -> Result<Self, InvalidValue> {
        if text.len() > TIME_TEXT_BYTES_MAX {
            let detail = format!("a text of {} bytes is not {EXPECTED}", text.len());
            return Err(InvalidValue::new(detail));
        }
        let duration = crate::duration::parse(text).map_err(|invalid| match invalid {
            InvalidDuration::TooLong(_) => too_long(format_args!("{text:?}")),
            invalid => InvalidValue::new(invalid.to_string()),
        })?;
        duration.try_into()
    }
}

impl TryFrom<u64> for DurationMs {
    type Error = InvalidValue;

    fn try_from(ms: u64) -> Result<Self, InvalidValue> {
        match ms <= TIME_MS_MAX {
            true => Ok(Self(ms)),
            false => Err(too_long(format_args!("{ms} ms"))),
        }
    }
}

impl TryFrom<Duration> for DurationMs {
    type Error = InvalidValue;

    /// Rounds up to whole milliseconds.
    fn try_from(duration: Duration) -> Result<Self, InvalidValue> {
        let ms = duration.as_nanos().div_ceil(1_000_000);
        u64::try_from(ms).unwrap_or(u64::MAX).try_into()
    }
}

impl From<DurationMs> for Duration {
    fn from(duration: DurationMs) -> Self {
        Self::from_millis(duration.0)
    }
}

/// Writes the text that requests have, such as `1m30s`.
impl fmt::Display for DurationMs {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(&crate::duration::text((*self).into()))
    }
}

impl Serialize for DurationMs {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for DurationMs {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(DurationVisitor)
    }
}

fn without_unit<E: Error>(number: impl fmt::Display) -> E {
    let invalid = InvalidDuration::WithoutUnit(number.to_string());
    E::custom(InvalidValue::new(invalid.to_string()))
}

struct DurationVisitor;

impl Visitor<'_> for DurationVisitor {
    type Value = DurationMs;

    fn expecting(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(EXPECTED)
    }

    fn visit_u64<E: Error>(self, number: u64) -> Result<DurationMs, E> {
        Err(without_unit(number))
    }

    fn visit_i64<E: Error>(self, number: i64) -> Result<DurationMs, E> {
        self.visit_f64(number as f64)
    }

    fn visit_f64<E: Error>(self, number: f64) -> Result<DurationMs, E> {
        if number >= 0.0 {
            return Err(without_unit(number));
        }
        let detail = format!("{number} is not {EXPECTED}");
        Err(E::custom(InvalidValue::new(detail)))
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<DurationMs, E> {
        text.parse().map_err(E::custom)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::{Value, json};

    use super::*;
    use crate::v1::problem::ProblemCode;

    fn read(value: Value) -> Result<u64, String> {
        let read = serde_json::from_value::<DurationMs>(value);
        read.map(DurationMs::as_ms)
            .map_err(|error| error.to_string())
    }

    #[test]
    fn texts_are_read_and_rounded_up() {
        for (text, ms) in [
            ("0s", 0),
            ("1h30m", 5_400_000),
            ("1.5s", 1_500),
            ("P1DT1H", 90_000_000),
            ("PT0.0001S", 1),
            ("PT1.0011S", 1_002),
            ("253402300799999ms", TIME_MS_MAX),
        ] {
            assert_eq!(text.parse(), Ok(DurationMs(ms)), "{text}");
            assert_eq!(read(json!(text)), Ok(ms), "{text}");
        }
    }

    #[test]
    fn a_number_is_refused_with_the_remedy() {
        for value in [json!(30), json!("30"), json!(0), json!(1.5)] {
            let error = read(value.clone()).unwrap_err();
            let number = value.as_str().map_or(value.to_string(), str::to_owned);
            let remedy = format!("write {number}s or {number}ms");
            assert!(error.contains(&remedy), "{value}: {error}");
        }
        for value in [
            json!(-1),
            json!(-1.5),
            json!(true),
            json!(null),
            json!([1]),
            json!("5min"),
        ] {
            let error = read(value.clone()).unwrap_err();
            assert!(error.contains("1h30m"), "{value}: {error}");
        }
        let error = "30".parse::<DurationMs>().unwrap_err();
        assert_eq!(error.code, ProblemCode::InvalidParameter);
    }

    #[test]
    fn a_duration_that_is_too_long_is_refused() {
        for text in ["253402300800000ms", "99999999999999999999d", "2932897d"] {
            let error = text.parse::<DurationMs>().unwrap_err();
            assert!(
                error.detail.contains("too long"),
                "{text}: {}",
                error.detail
            );
        }
        let long = format!("{}s", "1".repeat(TIME_TEXT_BYTES_MAX));
        assert!(long.parse::<DurationMs>().is_err());
    }

    #[test]
    fn durations_of_the_standard_library_are_rounded_up() {
        let short = DurationMs::try_from(Duration::from_micros(1)).unwrap();
        assert_eq!(short.as_ms(), 1);
        assert_eq!(Duration::from(short), Duration::from_millis(1));
        assert!(DurationMs::try_from(Duration::MAX).is_err());
        assert_eq!(DurationMs::saturating(u64::MAX), DurationMs::MAX);
    }

    proptest! {
        #[test]
        fn every_duration_is_read_as_it_is_written(ms in 0..=TIME_MS_MAX) {
            let duration = DurationMs(ms);
            prop_assert_eq!(duration.to_string().parse(), Ok(duration));
            let written = serde_json::to_value(duration).unwrap();
            prop_assert_eq!(read(written), Ok(ms));
        }
    }
}
