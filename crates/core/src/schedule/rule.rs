//! The times of ticks.

use std::fmt;
use std::ops::RangeInclusive;

use croner::parser::{CronParser, Seconds, Year};
use croner::{Cron, Weekday};
use jiff::civil::date;
use jiff::tz::{TimeZone, TimeZoneDatabase};
use jiff::{Timestamp, ToSpan, Zoned};

use crate::limits::DURATION_MS_MAX;

/// The shortest time between two ticks of `every`, in ms.
pub const EVERY_MS_MIN: u64 = 100;
/// The most bytes of a cron pattern.
const CRON_BYTES_MAX: usize = 255;

/// A pattern must match a time in these years, unless it matches no day in them, such as a Monday that is 29 February.
const CHECKED_YEARS: RangeInclusive<i16> = 2026..=2031;
/// The fields of a pattern, and the longest step of each.
const STEPS_MAX: [(&str, u32); 6] = [
    ("seconds", 59),
    ("minutes", 59),
    ("hours", 23),
    ("days", 30),
    ("months", 11),
    ("weekdays", 6),
];
/// No tick is outside of these years: a search for the next one ends there, and not in the year 5000.
const YEARS: RangeInclusive<i16> = 1970..=2199;

/// Why a schedule has no ticks.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum InvalidSchedule {
    /// The cron pattern cannot be read, or matches no time.
    #[error("{0}")]
    Cron(String),
    /// There is no such time zone.
    #[error("{0:?} is no time zone of the IANA database, such as Europe/Berlin or UTC")]
    TimeZone(String),
    /// The time between two ticks is too short or too long.
    #[error("every must be at least {EVERY_MS_MIN} ms and at most {DURATION_MS_MAX} ms")]
    Every,
}

/// When ticks are, without the begin and end of a schedule.
#[derive(Clone)]
pub enum TickTimes {
    /// At multiples of this time since the begin of the schedule, or since 1970 if it has none; in ms.
    Every(u64),
    /// When the wall clock of a time zone matches a cron pattern.
    Cron {
        /// Five fields, or six that begin with the seconds.
        pattern: Box<Cron>,
        /// A time zone of the IANA database.
        zone: TimeZone,
    },
}

/// The text of the pattern, not all that was parsed.
impl fmt::Debug for TickTimes {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Every(ms) => write!(out, "Every({ms})"),
            Self::Cron { pattern, zone } => {
                write!(out, "Cron({} {:?})", pattern.as_str(), zone.iana_name())
            }
        }
    }
}

impl TickTimes {
    /// Ticks at a fixed distance, in ms.
    ///
    /// # Errors
    /// It is below [`EVERY_MS_MIN`] or above [`DURATION_MS_MAX`].
    pub const fn every(ms: u64) -> Result<Self, InvalidSchedule> {
        match ms {
            EVERY_MS_MIN..=DURATION_MS_MAX => Ok(Self::Every(ms)),
            _ => Err(InvalidSchedule::Every),
        }
    }

    /// Ticks by a cron pattern of five fields, or of six that begin with the seconds, in a time zone of the IANA
    /// database.
    ///
    /// Where a clock is set forward or back, `croner` has this rule. A pattern with one second, one minute and one
    /// hour runs right behind a gap in which its time would be, if that is on the same day, and once where its time is
    /// repeated. Others, also lists and ranges, skip times in the gap, and run in both passes of the repeated time.
    ///
    /// # Errors
    /// There is no such time zone, or the pattern cannot be read or matches no time.
    pub fn cron(pattern: &str, time_zone: &str) -> Result<Self, InvalidSchedule> {
        let zone = TimeZoneDatabase::bundled().get(time_zone);
        let zone = zone.map_err(|_| InvalidSchedule::TimeZone(time_zone.to_owned()))?;
        let invalid = |detail: String| InvalidSchedule::Cron(detail);
        if pattern.len() > CRON_BYTES_MAX {
            let detail = format!("a cron pattern has at most {CRON_BYTES_MAX} bytes");
            return Err(invalid(detail));
        }
        let parser = CronParser::builder()
            .seconds(Seconds::Optional)
            .year(Year::Disallowed)
            .build();
        let parsed = parser.parse(pattern).map_err(|error| {
            invalid(format!(
                "not a cron pattern such as 0 9 * * MON-FRI: {error}"
            ))
        })?;
        if let Some(detail) = wide_step(pattern) {
            return Err(invalid(detail));
        }
        if !matches_a_time(&parsed, pattern, &zone) {
            return Err(invalid("the pattern matches no time".to_owned()));
        }
        let parsed = in_years(pattern, YEARS).unwrap_or(parsed);
        Ok(Self::Cron {
            pattern: Box::new(parsed),
            zone,
        })
    }

    /// The first tick after this time; `None` if there is none. With `every`, ticks are counted from `anchor_ms`.
    fn next_after(&self, after_ms: u64, anchor_ms: u64) -> Option<u64> {
        match self {
            Self::Every(ms) => match after_ms.checked_sub(anchor_ms) {
                None => Some(anchor_ms),
                Some(passed_ms) => anchor_ms.checked_add((passed_ms / ms + 1) * ms),
            },
            Self::Cron { pattern, zone } => {
                let after = zoned(after_ms, zone)?;
                in_ms(&pattern.find_next_occurrence(&after, false).ok()?)
            }
        }
    }

    /// The last tick at or before this time; `None` if there is none.
    fn last_until(&self, until_ms: u64, anchor_ms: u64) -> Option<u64> {
        match self {
            Self::Every(ms) => {
                let passed_ms = until_ms.checked_sub(anchor_ms)?;
                Some(until_ms - passed_ms % ms)
            }
            Self::Cron { pattern, zone } => {
                let until = zoned(until_ms, zone)?;
                in_ms(&pattern.find_previous_occurrence(&until, true).ok()?)
            }
        }
    }
}

/// Why a pattern has a step that its field has no room for: `*/90` in the minutes would be each full hour.
fn wide_step(pattern: &str) -> Option<String> {
    let fields: Vec<&str> = pattern.split_whitespace().collect();
    // Patterns of five fields have no seconds.
    let limits = STEPS_MAX.get(STEPS_MAX.len().checked_sub(fields.len())?..)?;
    for (field, (name, step_max)) in fields.iter().zip(limits) {
        for (_, step) in field.split(',').filter_map(|part| part.split_once('/')) {
            if step.parse().is_ok_and(|step: u32| step > *step_max) {
                return Some(format!(
                    "the step of {field} must be at most {step_max}, since the {name} of a pattern start again; use every for a fixed distance"
                ));
            }
        }
    }
    None
}

/// Whether a pattern matches any time. A search alone would not end for long: it looks at each day until the last year,
/// and at each second of an hour that is left out when clocks are set forward.
fn matches_a_time(parsed: &Cron, pattern: &str, zone: &TimeZone) -> bool {
    // Weekdays and leap years repeat after 28 years.
    if !matches_a_day(parsed, 1972..=1999) {
        return false;
    }
    let first = date(*CHECKED_YEARS.start(), 1, 1).to_zoned(zone.clone());
    match (in_years(pattern, CHECKED_YEARS), first) {
        (Some(checked), Ok(first)) if matches_a_day(parsed, CHECKED_YEARS) => {
            checked.find_next_occurrence(&first, true).is_ok()
        }
        _ => true,
    }
}

/// The same pattern in these years only; `None` if it is a name such as `@daily`.
fn in_years(pattern: &str, years: RangeInclusive<i16>) -> Option<Cron> {
    let seconds = match pattern.split_whitespace().count() {
        5 => "0 ",
        6 => "",
        _ => return None,
    };
    let parser = CronParser::builder()
        .seconds(Seconds::Required)
        .year(Year::Required)
        .build();
    let (first, last) = years.into_inner();
    let pattern = format!("{seconds}{} {first}-{last}", pattern.trim());
    parser.parse(&pattern).ok()
}

/// Whether a pattern matches a day in these years.
fn matches_a_day(pattern: &Cron, years: RangeInclusive<i16>) -> bool {
    let days = date(*years.start(), 1, 1).series(1.day());
    days.take_while(|day| years.contains(&day.year()))
        .any(|day| {
            let (year, month) = (i32::from(day.year()), day.month().unsigned_abs().into());
            let weekday = u32::from(day.weekday().to_sunday_zero_offset().unsigned_abs());
            let weekday = Weekday::from_days_from_sunday(weekday);
            let day = day.day().unsigned_abs().into();
            pattern.pattern.month_match(month).unwrap_or_default()
                && pattern
                    .pattern
                    .day_match(year, month, day, weekday)
                    .unwrap_or_default()
        })
}

/// An instant, rounded down to seconds: no tick of a pattern is between two seconds.
fn zoned(ms: u64, zone: &TimeZone) -> Option<Zoned> {
    let instant = Timestamp::from_second(i64::try_from(ms / 1000).ok()?).ok()?;
    Some(Zoned::new(instant, zone.clone()))
}

fn in_ms(tick: &Zoned) -> Option<u64> {
    u64::try_from(tick.timestamp().as_millisecond()).ok()
}

/// All ticks of a schedule.
#[derive(Debug, Clone)]
pub struct ScheduleRule {
    /// When they are.
    pub times: TickTimes,
    /// No tick is before this time, in ms since 1970.
    pub starts_at_ms: Option<u64>,
    /// No tick is after this time, in ms since 1970.
    pub ends_at_ms: Option<u64>,
}

impl ScheduleRule {
    /// The first tick after this time, in ms since 1970; `None` if there is none.
    pub fn next_after(&self, after_ms: u64) -> Option<u64> {
        let before_start_ms = self.anchor_ms().saturating_sub(1);
        let after_ms = after_ms.max(before_start_ms);
        let tick_ms = self.times.next_after(after_ms, self.anchor_ms())?;
        self.ends_at_ms
            .is_none_or(|ends_at_ms| tick_ms <= ends_at_ms)
            .then_some(tick_ms)
    }

    /// The last tick at or before this time, in ms since 1970; `None` if there is none.
    pub fn last_until(&self, until_ms: u64) -> Option<u64> {
        let until_ms = self
            .ends_at_ms
            .map_or(until_ms, |ends_at_ms| ends_at_ms.min(until_ms));
        let tick_ms = self.times.last_until(until_ms, self.anchor_ms())?;
        self.starts_at_ms
            .is_none_or(|starts_at_ms| tick_ms >= starts_at_ms)
            .then_some(tick_ms)
    }

    fn anchor_ms(&self) -> u64 {
        self.starts_at_ms.unwrap_or(0)
    }
}
