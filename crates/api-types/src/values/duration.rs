//! Durations.

use std::borrow::Cow;
use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use jiff::{Span, SpanRelativeTo};
use serde::{Deserialize, Deserializer, Serialize};
use utoipa::openapi::RefOr;
use utoipa::openapi::schema::Schema;
use utoipa::{PartialSchema, ToSchema};

use super::integer::{IntegerOrText, integer_or_text};
use super::value_schema::text_schema;
use crate::limits::{TIME_MS_MAX, TIME_TEXT_BYTES_MAX};
use crate::problem::InvalidValue;

/// The units of the compact form, longest first, in ms.
const UNITS: [(&str, u64); 5] = [
    ("d", 86_400_000),
    ("h", 3_600_000),
    ("m", 60_000),
    ("s", 1_000),
    ("ms", 1),
];

/// A duration in whole milliseconds, at most [`TIME_MS_MAX`].
///
/// Requests give an integer in ms, a compact text such as `1500ms`, `90s`, `1h30m` or `3d` (units from longest to
/// shortest, each at most once), or ISO 8601 without years and months, such as `PT5M`; days have 24 hours. ISO 8601
/// seconds finer than 1 ms are rounded up. Answers have an integer, in a field whose name ends in `_ms`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Default, Serialize)]
#[serde(transparent)]
pub struct DurationMs(u64);

impl DurationMs {
    /// No time.
    pub const ZERO: Self = Self(0);
    /// The longest duration.
    pub const MAX: Self = Self(TIME_MS_MAX);

    /// A duration of so many milliseconds; the longest one if there are more than [`TIME_MS_MAX`].
    #[must_use]
    pub const fn saturating(ms: u64) -> Self {
        if ms > TIME_MS_MAX {
            return Self::MAX;
        }
        Self(ms)
    }

    /// Milliseconds.
    #[must_use]
    pub const fn as_ms(self) -> u64 {
        self.0
    }
}

impl IntegerOrText for DurationMs {
    const EXPECTED: &'static str = "a duration: use an integer in ms, a text such as 1500ms, 90s, 1h30m or 3d, or ISO 8601 such as PT5M";

    fn from_integer(ms: u64) -> Result<Self, InvalidValue> {
        if ms > TIME_MS_MAX {
            let detail = format!("{ms} ms is too long; the longest duration is {TIME_MS_MAX} ms");
            return Err(InvalidValue::new(detail));
        }
        Ok(Self(ms))
    }

    fn from_text(text: &str) -> Result<Self, InvalidValue> {
        let invalid = || InvalidValue::new(format!("{text:?} is not {}", Self::EXPECTED));
        if text.len() > TIME_TEXT_BYTES_MAX {
            let detail = format!("a text of {} bytes is not {}", text.len(), Self::EXPECTED);
            return Err(InvalidValue::new(detail));
        }
        let ms = match text.as_bytes() {
            [b'P' | b'p', ..] => iso_8601(text),
            _ if is_digits(text) => text.parse().map_err(|_| BadText::TooLong),
            _ => compact(text),
        };
        match ms {
            Ok(ms) => Self::from_integer(ms),
            Err(BadText::Malformed) => Err(invalid()),
            Err(BadText::TooLong) => Err(InvalidValue::new(format!(
                "{text:?} is too long; the longest duration is {TIME_MS_MAX} ms"
            ))),
        }
    }
}

/// Why a text is not a duration.
enum BadText {
    Malformed,
    TooLong,
}

fn is_digits(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit())
}

/// Numbers with units, from the longest unit to the shortest.
fn compact(text: &str) -> Result<u64, BadText> {
    let mut rest = text;
    let mut units = UNITS.iter();
    let mut total: u64 = 0;
    while !rest.is_empty() {
        let unit_at = rest.find(|letter: char| !letter.is_ascii_digit());
        let (number, after) = rest.split_at(unit_at.ok_or(BadText::Malformed)?);
        let end = after.find(|letter: char| letter.is_ascii_digit());
        let (unit, next) = after.split_at(end.unwrap_or(after.len()));
        if number.is_empty() {
            return Err(BadText::Malformed);
        }
        let known = units.find(|(name, _)| *name == unit);
        let (_, unit_ms) = known.ok_or(BadText::Malformed)?;
        let part = number.parse::<u64>().ok();
        let part = part.and_then(|number| number.checked_mul(*unit_ms));
        let sum = part.and_then(|part| total.checked_add(part));
        total = sum.ok_or(BadText::TooLong)?;
        rest = next;
    }
    if text.is_empty() {
        return Err(BadText::Malformed);
    }
    Ok(total)
}

fn iso_8601(text: &str) -> Result<u64, BadText> {
    let span: Span = text.parse().map_err(|_| BadText::Malformed)?;
    if span.is_negative() || span.get_years() != 0 || span.get_months() != 0 {
        return Err(BadText::Malformed);
    }
    let days = SpanRelativeTo::days_are_24_hours();
    let duration = span.to_duration(days).map_err(|_| BadText::TooLong)?;
    let nanos = u128::try_from(duration.as_nanos()).map_err(|_| BadText::Malformed)?;
    u64::try_from(nanos.div_ceil(1_000_000)).map_err(|_| BadText::TooLong)
}

impl FromStr for DurationMs {
    type Err = InvalidValue;

    fn from_str(text: &str) -> Result<Self, InvalidValue> {
        Self::from_text(text)
    }
}

impl TryFrom<u64> for DurationMs {
    type Error = InvalidValue;

    fn try_from(ms: u64) -> Result<Self, InvalidValue> {
        Self::from_integer(ms)
    }
}

impl TryFrom<Duration> for DurationMs {
    type Error = InvalidValue;

    /// Rounds up to whole milliseconds.
    fn try_from(duration: Duration) -> Result<Self, InvalidValue> {
        let ms = duration.as_nanos().div_ceil(1_000_000);
        Self::from_integer(u64::try_from(ms).unwrap_or(u64::MAX))
    }
}

impl From<DurationMs> for Duration {
    fn from(duration: DurationMs) -> Self {
        Self::from_millis(duration.0)
    }
}

/// Writes a text that requests may have, such as `1500ms`.
impl fmt::Display for DurationMs {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{}ms", self.0)
    }
}

impl<'de> Deserialize<'de> for DurationMs {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Self::deserialize_from(deserializer)
    }
}

impl PartialSchema for DurationMs {
    fn schema() -> RefOr<Schema> {
        let pattern = concat!(
            r"^(\d+|(\d+d)?(\d+h)?(\d+m)?(\d+s)?(\d+ms)?",
            r"|[Pp](\d+[Ww])?(\d+[Dd])?([Tt]([\d.,]+[HhMmSs])+)?)$"
        );
        integer_or_text(
            "A duration: an integer in ms, a text such as `1500ms`, `90s`, `1h30m` or `3d`, or ISO 8601 such as `PT5M`.",
            (0, TIME_MS_MAX),
            text_schema("", TIME_TEXT_BYTES_MAX).pattern(Some(pattern)),
        )
    }
}

impl ToSchema for DurationMs {
    fn name() -> Cow<'static, str> {
        "Duration".into()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::{Value, json};

    use super::*;

    fn read(value: Value) -> Result<u64, String> {
        let read = serde_json::from_value::<DurationMs>(value);
        read.map(DurationMs::as_ms)
            .map_err(|error| error.to_string())
    }

    #[test]
    fn each_form_is_accepted() {
        for (text, ms) in [
            ("0", 0),
            ("1500", 1_500),
            ("1500ms", 1_500),
            ("90s", 90_000),
            ("5m", 300_000),
            ("1h30m", 5_400_000),
            ("3d", 259_200_000),
            ("1d2h3m4s5ms", 93_784_005),
            ("90m", 5_400_000),
            ("PT5M", 300_000),
            ("P1DT1H", 90_000_000),
            ("P2W", 1_209_600_000),
            ("PT0.5S", 500),
            ("PT0.0001S", 1),
            ("PT1.0011S", 1_002),
            ("253402300799999", TIME_MS_MAX),
        ] {
            assert_eq!(text.parse(), Ok(DurationMs(ms)), "{text}");
            assert_eq!(read(json!(text)), Ok(ms), "{text}");
        }
        assert_eq!(read(json!(1500)), Ok(1500));
        assert_eq!(read(json!(0)), Ok(0));
    }

    #[test]
    fn other_texts_are_rejected_with_the_accepted_forms() {
        for text in [
            "",
            " ",
            "-1s",
            "+1s",
            "1e99",
            "1e3",
            "5 minutes",
            "5min",
            "1h 30m",
            "30m1h",
            "1m1m",
            "ms",
            "1.5h",
            "5M",
            "P",
            "PT",
            "P1M",
            "P1Y",
            "-PT5M",
            "PT-5M",
            "P1D1H",
            "1y",
            "٣s",
            "0x10",
            "1s ",
            "1_000",
        ] {
            let error = text.parse::<DurationMs>().unwrap_err();
            assert_eq!(error.code, crate::problem::ProblemCode::InvalidParameter);
            for form in ["integer in ms", "1500ms", "90s", "1h30m", "3d", "PT5M"] {
                assert!(error.detail.contains(form), "{text:?}: {}", error.detail);
            }
        }
    }

    #[test]
    fn what_is_too_long_is_rejected() {
        for text in [
            "253402300800000",
            "18446744073709551616",
            "99999999999999999999d",
            "300000000000d1h",
            "18446744073709551615ms",
            "18446744073709551s18446744073709551615ms",
            "2932897d",
        ] {
            let error = text.parse::<DurationMs>().unwrap_err();
            assert!(
                error.detail.contains("too long"),
                "{text}: {}",
                error.detail
            );
        }
        let long = "1".repeat(TIME_TEXT_BYTES_MAX + 1);
        assert!(long.parse::<DurationMs>().is_err());
        assert!(
            read(json!(TIME_MS_MAX + 1))
                .unwrap_err()
                .contains("too long")
        );
    }

    #[test]
    fn other_json_is_rejected() {
        for value in [
            json!(-1),
            json!(1.5),
            json!(1e99),
            json!(1e3),
            json!(true),
            json!(null),
            json!([1]),
        ] {
            let error = read(value.clone()).unwrap_err();
            assert!(error.contains("1h30m"), "{value}: {error}");
        }
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
            prop_assert_eq!(serde_json::to_value(duration).unwrap(), json!(ms));
            prop_assert_eq!(read(json!(ms)), Ok(ms));
            prop_assert_eq!(ms.to_string().parse(), Ok(duration));
        }

        #[test]
        fn parts_add_up(d in 0_u64..1000, h in 0_u64..1000, m in 0_u64..1000, s in 0_u64..1000, ms in 0_u64..1000) {
            let total = d * 86_400_000 + h * 3_600_000 + m * 60_000 + s * 1000;
            let compact = format!("{d}d{h}h{m}m{s}s{ms}ms");
            prop_assert_eq!(compact.parse(), Ok(DurationMs(total + ms)));
            let iso = format!("P{d}DT{h}H{m}M{s}.{ms:03}S");
            prop_assert_eq!(iso.parse(), Ok(DurationMs(total + ms)));
        }

        #[test]
        fn any_text_is_accepted_or_rejected_without_a_panic(text in "\\PC{0,80}|[0-9dhmsPT.]{0,30}") {
            if let Ok(duration) = text.parse::<DurationMs>() {
                prop_assert!(duration <= DurationMs::MAX);
            }
        }
    }
}
