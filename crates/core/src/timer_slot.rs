//! The slots of far timers: levels, widths, and the slot of a due time. Part of the stored layout.
//!
//! Far timers are a hierarchical timing wheel in Redis (Varghese and Lauck, 1987): a slot of a level spans 64 slots of
//! the level below. With the default width the levels have slots of 65 s, 70 min, 3 and 199 days.

use std::cmp::Reverse;
use std::fmt;
use std::str::FromStr;

/// Number of levels of far slots.
pub const FAR_LEVELS: u8 = 4;
/// Number of slots of a level that one slot of the next level spans.
pub const SLOTS_PER_SLOT: u64 = 64;

/// The width of the slots of the first level in one deployment, in ms.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SlotWidth(u32);

/// The slot width is out of bounds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error(
    "slot_ms must be {} to {}, not {ms}",
    SlotWidth::MIN_MS,
    SlotWidth::MAX_MS
)]
pub struct InvalidSlotWidth {
    ms: u32,
}

impl SlotWidth {
    /// Default width. `lua/prelude.lua` is written for it.
    pub const DEFAULT_MS: u32 = 65_536;
    /// Minimum width: a narrower far slot would be loaded too shortly before its jobs are due.
    pub const MIN_MS: u32 = 100;
    /// Maximum width: one day. Timers due within twice the width are in a sorted set, which takes ten times the memory.
    pub const MAX_MS: u32 = 86_400_000;

    /// Slots of this width, in ms.
    ///
    /// # Errors
    /// `ms` is not between [`Self::MIN_MS`] and [`Self::MAX_MS`].
    pub const fn new(ms: u32) -> Result<Self, InvalidSlotWidth> {
        match ms {
            Self::MIN_MS..=Self::MAX_MS => Ok(Self(ms)),
            _ => Err(InvalidSlotWidth { ms }),
        }
    }

    /// The width in ms.
    pub const fn ms(self) -> u32 {
        self.0
    }

    /// The slots in which the hint of a job that is due then may be, from the last one, which is of the first level.
    #[must_use]
    pub fn slots_of(self, due_at_ms: u64) -> [FarSlot; FAR_LEVELS as usize] {
        let first = due_at_ms / u64::from(self.0);
        [1, 2, 3, 4].map(|level| FarSlot {
            level,
            number: first / width(level),
        })
    }

    /// When the first job of a slot may be due, in ms.
    pub const fn begin_ms(self, slot: FarSlot) -> u64 {
        slot.begin().saturating_mul(self.0 as u64)
    }

    /// When a slot is loaded, in ms: one width of the level below before the first slot that it spans is loaded.
    pub const fn load_at_ms(self, slot: FarSlot) -> u64 {
        let begin = slot.begin().saturating_sub(slot.lead());
        begin.saturating_mul(self.0 as u64)
    }
}

impl Default for SlotWidth {
    fn default() -> Self {
        Self(Self::DEFAULT_MS)
    }
}

/// A slot of far timers. Written as `<level>:<number>`.
///
/// Slots are ordered by their begin. Slots with the same begin are ordered from the highest level to the lowest. A hint
/// that is loaded from a slot goes to a later slot in this order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct FarSlot {
    /// 1 to [`FAR_LEVELS`].
    pub level: u8,
    /// The due time divided by the width of the slots of this level.
    pub number: u64,
}

/// This is not the name of a slot.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("a far slot is written as level, colon and number")]
pub struct InvalidFarSlot;

impl FarSlot {
    /// Begin of the slot, in slots of the first level.
    pub const fn begin(self) -> u64 {
        self.number.saturating_mul(width(self.level))
    }

    /// How long before its begin the slot is loaded, in slots of the first level.
    const fn lead(self) -> u64 {
        let (mut level, mut lead) = (2, 1);
        while level <= self.level {
            lead += width(level - 1);
            level += 1;
        }
        lead
    }
}

/// Width of the slots of a level, in slots of the first level.
const fn width(level: u8) -> u64 {
    SLOTS_PER_SLOT.pow(level as u32 - 1)
}

impl Ord for FarSlot {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        let key = |slot: &Self| (slot.begin(), Reverse(slot.level), slot.number);
        key(self).cmp(&key(other))
    }
}

impl PartialOrd for FarSlot {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl fmt::Display for FarSlot {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{}:{}", self.level, self.number)
    }
}

impl FromStr for FarSlot {
    type Err = InvalidFarSlot;

    fn from_str(text: &str) -> Result<Self, InvalidFarSlot> {
        let (level, number) = text.split_once(':').ok_or(InvalidFarSlot)?;
        let slot = Self {
            level: level.parse().map_err(|_| InvalidFarSlot)?,
            number: number.parse().map_err(|_| InvalidFarSlot)?,
        };
        // Numbers have one spelling only.
        let is_valid = (1..=FAR_LEVELS).contains(&slot.level) && slot.to_string() == text;
        if is_valid {
            Ok(slot)
        } else {
            Err(InvalidFarSlot)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn slot(level: u8, number: u64) -> FarSlot {
        FarSlot { level, number }
    }

    #[test]
    fn widths_are_bounded_and_slots_begin_at_multiples() {
        for ms in [0, 99, 86_400_001, u32::MAX] {
            assert_eq!(SlotWidth::new(ms), Err(InvalidSlotWidth { ms }));
        }
        let width = SlotWidth::new(100).unwrap();
        let slots = [0, 99, 100, 199, 200].map(|due_at_ms| width.slots_of(due_at_ms)[0].number);
        assert_eq!(slots, [0, 0, 1, 1, 2]);
        assert_eq!(
            width.slots_of(819_199),
            [slot(1, 8191), slot(2, 127), slot(3, 1), slot(4, 0)]
        );
        assert_eq!(SlotWidth::default().ms(), SlotWidth::DEFAULT_MS);
    }

    #[test]
    fn a_slot_is_loaded_one_width_before_the_first_slot_of_the_level_below() {
        let width = SlotWidth::new(100).unwrap();
        for (slot, begin_ms, load_at_ms) in [
            (slot(1, 700), 70_000, 69_900),
            (slot(2, 11), 70_400, 70_200),
            (slot(3, 1), 409_600, 403_000),
            (slot(4, 1), 26_214_400, 25_798_200),
            (slot(1, 0), 0, 0),
            (slot(3, u64::MAX), u64::MAX, u64::MAX),
        ] {
            assert_eq!(width.begin_ms(slot), begin_ms, "{slot}");
            assert_eq!(width.load_at_ms(slot), load_at_ms, "{slot}");
        }
    }

    #[test]
    fn slots_are_ordered_by_begin_and_then_from_the_highest_level() {
        let ordered = [
            slot(1, 63),
            slot(3, 0),
            slot(2, 1),
            slot(1, 64),
            slot(1, 65),
        ];
        let mut sorted = ordered;
        sorted.sort_unstable();
        let expected = [
            slot(3, 0),
            slot(1, 63),
            slot(2, 1),
            slot(1, 64),
            slot(1, 65),
        ];
        assert_eq!(sorted, expected);
    }

    #[test]
    fn names_of_slots_are_parsed_and_other_names_are_rejected() {
        for name in ["1:0", "2:26214", "3:18446744073709551615"] {
            assert_eq!(name.parse::<FarSlot>().unwrap().to_string(), name);
        }
        for name in [
            "", "1", "0:1", "5:1", "1:", ":1", "1:01", "1:+1", "1:-1", "1:1:1", "01:1",
        ] {
            assert_eq!(name.parse::<FarSlot>(), Err(InvalidFarSlot), "{name}");
        }
    }
}
