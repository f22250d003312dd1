//! Instants.

use std::fmt;
use std::str::FromStr;
use std::time::SystemTime;

use jiff::SignedDuration;
use jiff::civil::DateTime;
use serde::de::{Error, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::limits::{TIME_MS_MAX, TIME_TEXT_BYTES_MAX, TIMESTAMP_MS_MIN};
use crate::v1::problem::{InvalidValue, ProblemCode};

const EPOCH: DateTime = DateTime::constant(1970, 1, 1, 0, 0, 0, 0);
/// The accepted forms, for errors.
const EXPECTED: &str = "an instant: use RFC 3339 with an offset, such as 2026-11-21T12:30:00.000Z or \
     2026-11-21T13:30:00+01:00, or an integer in ms since 1970";
const DATE_TIME_BYTES: usize = "2026-11-21T12:30:00".len();
/// The last whole second of the second 59, plus a leap second.
const LEAP_SECOND_MS: i64 = 1_000;

/// An instant in whole milliseconds since 1970, up to the end of the year 9999.
///
/// Requests give RFC 3339 with an offset, or an integer in ms since 1970. Fractions of a second finer than 1 ms are
/// rounded up, so that no job is early. Integers from 1 to [`TIMESTAMP_MS_MIN`] are rejected: they are seconds, sent
/// by mistake. Answers have RFC 3339 in UTC with three digits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Timestamp(u64);

impl Timestamp {
    /// The last instant: 9999-12-31T23:59:59.999Z.
    pub const MAX: Self = Self(TIME_MS_MAX);

    /// The instant so many milliseconds after the beginning of 1970; [`Self::MAX`] if that is later.
    pub const fn saturating(ms: u64) -> Self {
        if ms > TIME_MS_MAX {
            return Self::MAX;
        }
        Self(ms)
    }

    /// Milliseconds since the beginning of 1970.
    pub const fn as_ms(self) -> u64 {
        self.0
    }
}

fn out_of_range(what: impl fmt::Display) -> InvalidValue {
    InvalidValue::new(format!(
        "{what} is out of range: instants are in the years 1970 to 9999, and no job can be due after 2527-06-23"
    ))
    .with_code(ProblemCode::RunAtOutOfRange)
}

impl Timestamp {
    fn from_integer(ms: u64) -> Result<Self, InvalidValue> {
        match ms {
            1..TIMESTAMP_MS_MIN => Err(InvalidValue::new(format!(
                "{ms} ms after the beginning of 1970 is before March 1973: these are probably seconds; multiply by 1000"
            ))),
            0..=TIME_MS_MAX => Ok(Self(ms)),
            _ => Err(out_of_range(ms)),
        }
    }
}

impl FromStr for Timestamp {
    type Err = InvalidValue;

    fn from_str(text: &str) -> Result<Self, InvalidValue> {
        if text.len() > TIME_TEXT_BYTES_MAX {
            let detail = format!("a text of {} bytes is not {EXPECTED}", text.len());
            return Err(InvalidValue::new(detail));
        }
        if !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit()) {
            return text
                .parse()
                .map_err(|_| out_of_range(text))
                .and_then(Self::from_integer);
        }
        if has_long_year(text) {
            return Err(out_of_range(format_args!("{text:?}")));
        }
        let ms = rfc_3339(text).ok_or_else(|| malformed(text))?;
        let in_range = u64::try_from(ms).ok().filter(|ms| *ms <= TIME_MS_MAX);
        let ms = in_range.ok_or_else(|| out_of_range(format_args!("{text:?}")))?;
        Ok(Self(ms))
    }
}

/// Whether a text begins like a date with more than four digits in its year.
fn has_long_year(text: &str) -> bool {
    let digits = text.bytes().take_while(u8::is_ascii_digit).count();
    digits > 4 && text.as_bytes().get(digits) == Some(&b'-')
}

fn malformed(text: &str) -> InvalidValue {
    let mut detail = format!("{text:?} is not {EXPECTED}");
    // A query has `+` for a space.
    let is_offset = |rest: &str| rest.starts_with(' ') && rest.as_bytes().get(3) == Some(&b':');
    if text.get(DATE_TIME_BYTES..).is_some_and(|rest| {
        is_offset(rest.trim_start_matches(|letter: char| letter.is_ascii_digit() || letter == '.'))
    }) {
        detail.push_str("; in a query, write the + of the offset as %2B");
    }
    InvalidValue::new(detail)
}

/// Milliseconds since 1970, rounded up, of an instant of RFC 3339.
fn rfc_3339(text: &str) -> Option<i64> {
    let (date_time, rest) = text.split_at_checked(DATE_TIME_BYTES)?;
    let is_shaped = date_time.bytes().enumerate().all(|(at, byte)| match at {
        4 | 7 => byte == b'-',
        10 => byte == b'T' || byte == b't',
        13 | 16 => byte == b':',
        _ => byte.is_ascii_digit(),
    });
    if !is_shaped {
        return None;
    }
    let (fraction_ms, offset) = match rest.strip_prefix('.') {
        Some(rest) => fraction_ms(rest)?,
        None => (0, rest),
    };
    let offset_ms = offset_ms(offset)?;
    // jiff reads a leap second as the second before it, which would be early.
    let leap_ms = if date_time.ends_with("60") {
        LEAP_SECOND_MS
    } else {
        0
    };
    let local: DateTime = date_time.parse().ok()?;
    let since_epoch = i64::try_from(local.duration_since(EPOCH).as_millis()).ok()?;
    Some(since_epoch + leap_ms + fraction_ms - offset_ms)
}

/// Reads the digits of a fraction of a second: ms, rounded up, and the text behind them.
fn fraction_ms(text: &str) -> Option<(i64, &str)> {
    let end = text.find(|letter: char| !letter.is_ascii_digit());
    let (digits, rest) = text.split_at(end?);
    if digits.is_empty() {
        return None;
    }
    let (ms, finer) = digits.split_at(digits.len().min(3));
    let ms: i64 = format!("{ms:0<3}").parse().ok()?;
    let is_finer = finer.bytes().any(|digit| digit != b'0');
    Some((ms + i64::from(is_finer), rest))
}

/// Reads `Z`, `+HH:MM` or `-HH:MM`.
fn offset_ms(text: &str) -> Option<i64> {
    let (sign, digits) = match text.as_bytes() {
        [b'Z' | b'z'] => return Some(0),
        [b'+', digits @ ..] => (1, digits),
        [b'-', digits @ ..] => (-1, digits),
        _ => return None,
    };
    let &[h1, h2, b':', m1, m2] = digits else {
        return None;
    };
    let number = |tens: u8, ones: u8| {
        let is_number = tens.is_ascii_digit() && ones.is_ascii_digit();
        is_number.then(|| i64::from(tens - b'0') * 10 + i64::from(ones - b'0'))
    };
    let hours = number(h1, h2).filter(|hours| *hours < 24)?;
    let minutes = number(m1, m2).filter(|minutes| *minutes < 60)?;
    Some(sign * (hours * 60 + minutes) * 60_000)
}

impl From<SystemTime> for Timestamp {
    /// Rounds up to whole milliseconds. Earlier times become the beginning of 1970.
    fn from(time: SystemTime) -> Self {
        let since_epoch = time.duration_since(SystemTime::UNIX_EPOCH);
        let ms = since_epoch
            .unwrap_or_default()
            .as_nanos()
            .div_ceil(1_000_000);
        Self::saturating(u64::try_from(ms).unwrap_or(u64::MAX))
    }
}

/// RFC 3339 in UTC with three digits.
impl fmt::Display for Timestamp {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let since_epoch = SignedDuration::from_millis(i64::try_from(self.0).unwrap_or(i64::MAX));
        let utc = EPOCH.saturating_add(since_epoch);
        write!(out, "{utc:.3}Z")
    }
}

impl Serialize for Timestamp {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Timestamp {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(TimestampVisitor)
    }
}

struct TimestampVisitor;

/// The error for a number that is negative, has a fraction, or does not fit 64 bits.
fn not_an_instant<E: Error>(number: impl fmt::Display) -> E {
    E::custom(InvalidValue::new(format!("{number} is not {EXPECTED}")))
}

impl Visitor<'_> for TimestampVisitor {
    type Value = Timestamp;

    fn expecting(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(EXPECTED)
    }

    fn visit_u64<E: Error>(self, ms: u64) -> Result<Timestamp, E> {
        Timestamp::from_integer(ms).map_err(E::custom)
    }

    fn visit_i64<E: Error>(self, number: i64) -> Result<Timestamp, E> {
        match u64::try_from(number) {
            Ok(ms) => self.visit_u64(ms),
            Err(_) => Err(not_an_instant(number)),
        }
    }

    fn visit_f64<E: Error>(self, number: f64) -> Result<Timestamp, E> {
        Err(not_an_instant(number))
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<Timestamp, E> {
        text.parse().map_err(E::custom)
    }
}

#[cfg(test)]
mod tests;
