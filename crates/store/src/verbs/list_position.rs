//! Where in a lane a list of jobs continues.

use std::fmt;
use std::ops::RangeInclusive;
use std::str::FromStr;

use strum::IntoEnumIterator;
use tidegate_core::JobState;

/// A part of a lane that is read from its begin to its end. They are in the order in which jobs pass through them, so
/// that none is missed which moves on during a walk.
#[derive(
    Debug,
    Clone,
    Copy,
    PartialEq,
    Eq,
    PartialOrd,
    Ord,
    strum::Display,
    strum::EnumIter,
    strum::EnumString,
)]
#[strum(serialize_all = "lowercase")]
pub(super) enum ListPart {
    /// Delayed and leased jobs whose timers are in far slots, among the timers of all queues of the bucket.
    Far,
    /// The other delayed and leased jobs.
    Near,
    Ready,
    Dead,
    /// Jobs that are done, among all jobs of the bucket with an expiry.
    Done,
}

const LEVEL: RangeInclusive<u64> = 1..=4;
const ANY: RangeInclusive<u64> = 0..=u64::MAX;
/// Times in ms, job numbers, numbers of far slots.
const SIX_BYTES: RangeInclusive<u64> = 0..=(1 << 48) - 1;
/// Scripts count with doubles.
const EXACT: RangeInclusive<u64> = 0..=(1 << 53) - 1;
const PLACE: RangeInclusive<u64> = 0..=99;
const PRIORITY: RangeInclusive<u64> = 0..=7;
/// The half of the hash of a group.
const FOUR_BYTES: RangeInclusive<u64> = 0..=u32::MAX as u64;

impl ListPart {
    fn has_any(self, states: &[JobState]) -> bool {
        let of_part: &[JobState] = match self {
            Self::Far | Self::Near => &[JobState::Delayed, JobState::Leased],
            Self::Ready => &[JobState::Ready],
            Self::Dead => &[JobState::Dead],
            Self::Done => &[JobState::Done],
        };
        states.iter().any(|state| of_part.contains(state))
    }

    /// The bounds of the numbers of a place, as `list_jobs` and `list_done` describe them. With others the scripts
    /// would fail.
    const fn bounds(self) -> &'static [RangeInclusive<u64>] {
        match self {
            Self::Far => &[LEVEL, SIX_BYTES, EXACT, EXACT],
            Self::Near => &[SIX_BYTES, SIX_BYTES],
            Self::Ready | Self::Dead => &[
                PRIORITY, FOUR_BYTES, FOUR_BYTES, EXACT, EXACT, SIX_BYTES, SIX_BYTES, SIX_BYTES,
                EXACT,
            ],
            Self::Done => &[ANY, SIX_BYTES, PLACE, EXACT],
        }
    }
}

/// Where in a lane a list of jobs continues. Its text is the name of a part, digits and colons.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ListPosition {
    pub(super) part: ListPart,
    /// The numbers of a place in the part; none = at its begin.
    place: Vec<u64>,
}

impl ListPosition {
    /// The begin of a list of jobs in these states; `None` without a state.
    pub(super) fn first(states: &[JobState]) -> Option<Self> {
        Self::behind(None, states)
    }

    /// The begin of the next part that may have jobs in these states.
    pub(super) fn behind(part: Option<ListPart>, states: &[JobState]) -> Option<Self> {
        let mut parts = ListPart::iter();
        let next = parts.find(|next| part.is_none_or(|part| *next > part) && next.has_any(states));
        next.map(|part| Self {
            part,
            place: Vec::new(),
        })
    }

    /// Reads a place that a script has returned.
    pub(super) fn in_part(part: ListPart, place: &str) -> Result<Self, InvalidPosition> {
        if place.is_empty() {
            let place = Vec::new();
            return Ok(Self { part, place });
        }
        let place: Vec<u64> = place
            .split(':')
            .map(read_number)
            .collect::<Result<_, _>>()?;
        let bounds = part.bounds();
        let is_valid = place.len() == bounds.len()
            && place
                .iter()
                .zip(bounds)
                .all(|(it, bounds)| bounds.contains(it));
        is_valid
            .then_some(Self { part, place })
            .ok_or(InvalidPosition)
    }

    /// The numbers of the place, as the scripts take them.
    pub(super) fn place(&self) -> String {
        let numbers: Vec<String> = self.place.iter().map(u64::to_string).collect();
        numbers.join(":")
    }

    /// The same position after the caller has changed the jobs before it: their due times no longer identify it.
    #[must_use]
    pub fn behind_changed_jobs(mut self) -> Self {
        const DUE_MS: usize = 6;
        if matches!(self.part, ListPart::Ready | ListPart::Dead)
            && let Some(due_ms) = self.place.get_mut(DUE_MS)
        {
            *due_ms = 0;
        }
        self
    }
}

/// Reads a number of a position: digits only.
fn read_number(text: &str) -> Result<u64, InvalidPosition> {
    let is_number = text.bytes().all(|byte| byte.is_ascii_digit());
    let number = is_number.then(|| text.parse().ok()).flatten();
    number.ok_or(InvalidPosition)
}

impl fmt::Display for ListPosition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.part, self.place())
    }
}

impl FromStr for ListPosition {
    type Err = InvalidPosition;

    fn from_str(text: &str) -> Result<Self, InvalidPosition> {
        let (part, place) = text.split_once(':').ok_or(InvalidPosition)?;
        let part = part.parse().map_err(|_| InvalidPosition)?;
        Self::in_part(part, place)
    }
}

/// A text is not the position of a list of jobs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("not the position of a list of jobs")]
pub struct InvalidPosition;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn positions_are_read_as_they_are_written() {
        for text in [
            "far:",
            "far:4:103:17:500",
            "near:1764:1000002",
            "ready:4:0:4294967295:9:17:1000001:1764:1000000:0",
            "dead:0:0:0:0:17:1000001:0:0:3",
            "done:18446744073709551615:10000:99:0",
        ] {
            let position: ListPosition = text.parse().unwrap();
            assert_eq!(position.to_string(), text);
        }
    }

    #[test]
    fn other_texts_are_no_positions() {
        for text in [
            "",
            "far",
            "all:",
            "far:99999999999999999999",
            "far:9999999999999",
            "far:0:103:17:500",
            "far:5:103:17:500",
            "far:4:281474976710656:17:500",
            "near:1:1:1",
            "near:281474976710656:1",
            "near:1:",
            "ready:0:0:0:0:99999999999999999999:1:1:1:1",
            "ready:0:0:0:0:9007199254740992:1:1:1:1",
            "ready:0:4294967296:0:0:1:1:1:1:1",
            "ready:8:0:0:0:1:1:1:1:1",
            "ready:1:1",
            "ready:1;2",
            "ready:a",
            "ready:0:0:0:0:-1:1:1:1:1",
            "ready:0:0:0:0:+1:1:1:1:1",
            "dead:0:0:0:0:1e5:1:1:1:1",
            "done:99999999999999999999:0:0:0",
            "done:0:0:100:0",
        ] {
            assert_eq!(text.parse::<ListPosition>(), Err(InvalidPosition), "{text}");
        }
    }

    #[test]
    fn a_list_reads_only_parts_with_the_selected_states() {
        let parts = |states: &[JobState]| {
            let mut parts = Vec::new();
            let mut position = ListPosition::first(states);
            while let Some(at) = position {
                parts.push(at.part.to_string());
                position = ListPosition::behind(Some(at.part), states);
            }
            parts
        };
        assert_eq!(
            parts(&JobState::ALL),
            ["far", "near", "ready", "dead", "done"]
        );
        assert_eq!(parts(&[JobState::Leased]), ["far", "near"]);
        assert_eq!(parts(&[JobState::Dead]), ["dead"]);
        assert!(parts(&[]).is_empty());
    }

    #[test]
    fn jobs_that_the_caller_changed_are_recognised_without_their_due_times() {
        for (before, after) in [
            (
                "ready:1:0:0:3:17:1000001:1764:7:0",
                "ready:1:0:0:3:17:1000001:0:7:0",
            ),
            ("dead:", "dead:"),
            ("near:1764:1000002", "near:1764:1000002"),
        ] {
            let position: ListPosition = before.parse().unwrap();
            assert_eq!(position.behind_changed_jobs().to_string(), after);
        }
    }
}
