//! In which lane of a queue a key is, while the number of lanes changes.
//!
//! A key is placed by its hash and the number of open lanes. After a change of that number, jobs may be placed by former
//! numbers until these are settled (`docs/decisions/0086-keys-on-lanes.md`).

use std::cmp::Ordering;
use std::fmt;
use std::str::FromStr;

use crate::jump_hash::LaneHash;
use crate::limits::LANES_MAX;

/// How many former numbers of lanes the row of a queue may have when the number is set.
pub const FORMER_NUMBERS_MAX: usize = 3;

/// The numbers of lanes by which the keys of a queue are placed: the present one, and former ones that are not settled.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LaneNumbers {
    present: u16,
    /// Bit n: the number n + 1.
    formers: u64,
}

const _: () = assert!(LANES_MAX as u32 <= u64::BITS);

impl Default for LaneNumbers {
    fn default() -> Self {
        Self::FIRST_LANE
    }
}

impl LaneNumbers {
    /// All keys are in the first lane.
    pub const FIRST_LANE: Self = Self {
        present: 1,
        formers: 0,
    };

    /// One number, of 1 to 64 lanes.
    ///
    /// # Errors
    /// No queue has so many lanes.
    pub const fn of(present: u16) -> Result<Self, InvalidPlacement> {
        match present {
            1..=LANES_MAX => Ok(Self {
                present,
                formers: 0,
            }),
            _ => Err(InvalidPlacement),
        }
    }

    /// All of them, the present one first, and the former ones in order.
    pub fn iter(&self) -> impl Iterator<Item = u16> {
        std::iter::once(self.present).chain(self.formers())
    }

    /// The former ones, in order.
    pub fn formers(&self) -> impl Iterator<Item = u16> {
        let formers = self.formers;
        (1..=LANES_MAX).filter(move |number| formers & bit(*number) != 0)
    }

    /// Whether keys are placed by the present number alone.
    pub const fn is_settled(&self) -> bool {
        self.formers == 0
    }

    pub const fn present(&self) -> u16 {
        self.present
    }

    /// The number of lanes in which keys may be.
    pub fn lanes(&self) -> u16 {
        self.iter().max().unwrap_or(1)
    }

    /// Whether all of them are among `others`, with the same present one.
    pub const fn is_part_of(self, others: Self) -> bool {
        self.present == others.present && self.formers & !others.formers == 0
    }

    /// The same without a former number.
    #[must_use]
    pub const fn without(self, former: u16) -> Self {
        Self {
            formers: self.formers & !bit(former),
            ..self
        }
    }
}

const fn bit(number: u16) -> u64 {
    1 << (number - 1)
}

impl fmt::Display for LaneNumbers {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{}", self.present())?;
        self.formers()
            .try_for_each(|number| write!(out, ",{number}"))
    }
}

/// The text is not the form of a placement in Redis.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct InvalidPlacement;

impl FromStr for LaneNumbers {
    type Err = InvalidPlacement;

    fn from_str(text: &str) -> Result<Self, InvalidPlacement> {
        let numbers = text.split(',').map(|number| {
            let number = number.parse().map_err(|_| InvalidPlacement)?;
            Self::of(number)
        });
        let mut all: Option<Self> = None;
        for number in numbers {
            let number = number?;
            let first = all.get_or_insert(number);
            if number.present != first.present {
                first.formers |= bit(number.present);
            }
        }
        all.ok_or(InvalidPlacement)
    }
}

/// How the keys of a queue are placed in its lanes, as a process knows it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct KeyPlacement {
    /// The epoch of the row in the table of lanes; of a queue without a row, the last epoch of the table.
    pub epoch: u64,
    pub numbers: LaneNumbers,
    /// Whether the queue has a row. The epoch of a placement without one says nothing about this queue: the row of another
    /// queue may have it.
    pub has_row: bool,
}

impl KeyPlacement {
    /// Of a queue that never had other lanes than the first one, in a table that was never changed.
    pub const FIRST_LANE: Self = Self {
        epoch: 0,
        numbers: LaneNumbers::FIRST_LANE,
        has_row: false,
    };

    /// The lane in which new jobs with this hash are stored.
    pub fn lane_of(&self, key: LaneHash) -> u16 {
        key.lane(self.numbers.present())
    }

    /// The other lanes in which a job with this hash may be, each once.
    pub fn former_lanes_of(&self, key: LaneHash) -> Vec<u16> {
        let mut lanes: Vec<u16> = self.numbers.formers().map(|it| key.lane(it)).collect();
        lanes.sort_unstable();
        lanes.dedup();
        lanes.retain(|lane| *lane != self.lane_of(key));
        lanes
    }

    /// Whether the table, which a lane refuses with this placement, has lost the row of the lane's floor: the table was read
    /// after that row was set.
    pub fn is_lost_before(&self, floor: Self) -> bool {
        let has_other = self.numbers.present() != floor.numbers.present();
        match self.epoch.cmp(&floor.epoch) {
            Ordering::Less => true,
            Ordering::Equal => has_other,
            Ordering::Greater => has_other && !self.has_row,
        }
    }

    /// Whether all keys are in the first lane.
    pub fn is_first_lane(&self) -> bool {
        self.numbers == LaneNumbers::FIRST_LANE
    }
}

impl fmt::Display for KeyPlacement {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.has_row {
            true => write!(out, "{} {}", self.epoch, self.numbers),
            false => write!(out, "{}", self.epoch),
        }
    }
}

impl FromStr for KeyPlacement {
    type Err = InvalidPlacement;

    fn from_str(text: &str) -> Result<Self, InvalidPlacement> {
        let (epoch, numbers) = match text.split_once(' ') {
            Some((epoch, numbers)) => (epoch, Some(numbers.parse()?)),
            None => (text, None),
        };
        Ok(Self {
            epoch: epoch.parse().map_err(|_| InvalidPlacement)?,
            numbers: numbers.unwrap_or_default(),
            has_row: numbers.is_some(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{KeyHash, QueueKey};

    #[test]
    fn placements_are_read_as_they_are_written() {
        for text in ["0", "18", "18 1", "18 8,1", "4294967296 64,1,2,8"] {
            let placement: KeyPlacement = text.parse().unwrap();
            assert_eq!(placement.to_string(), text);
        }
        for text in ["", "18 ", "18 8,", "18 0", "18 65", "x 1", "18 8;1"] {
            assert_eq!(
                text.parse::<KeyPlacement>(),
                Err(InvalidPlacement),
                "{text}"
            );
        }
        assert_eq!(KeyPlacement::default().to_string(), "0");
        let numbers: LaneNumbers = "8,2,1".parse().unwrap();
        assert_eq!(numbers.to_string(), "8,1,2");
        assert_eq!(numbers.without(2).to_string(), "8,1");
        assert_eq!(numbers.without(8), numbers, "the present one stays");
        assert_eq!(numbers.lanes(), 8);
        assert!(numbers.without(2).is_part_of(numbers) && !numbers.is_part_of(numbers.without(2)));
    }

    #[test]
    fn a_table_that_has_lost_the_row_of_a_floor_is_known() {
        let is_lost = |known: &str, floor: &str| {
            let [known, floor] = [known, floor].map(|text| text.parse::<KeyPlacement>().unwrap());
            known.is_lost_before(floor)
        };
        for (known, floor) in [
            ("4 1", "5 2,1"),
            ("4", "5 1"),
            ("5 1", "5 2"),
            ("6", "5 2,1"),
        ] {
            assert!(is_lost(known, floor), "{known} < {floor}");
        }
        for (known, floor) in [
            ("5 2", "5 2,1"),
            ("6 1", "5 2"),
            ("5", "5 1,2"),
            ("6", "5 1"),
        ] {
            assert!(!is_lost(known, floor), "{known} >= {floor}");
        }
    }

    #[test]
    fn the_former_lanes_of_a_key_are_those_of_former_numbers() {
        let queue = QueueKey::try_from("shop/orders").unwrap();
        let placement: KeyPlacement = "9 8,4,2,1".parse().unwrap();
        for number in 0..100 {
            let key = KeyHash::of_job(&queue, &number.to_string()).lane_hash();
            let (present, formers) = (placement.lane_of(key), placement.former_lanes_of(key));
            assert!(!formers.contains(&present));
            for lanes in [4, 2, 1] {
                let lane = key.lane(lanes);
                assert!(lane == present || formers.contains(&lane));
            }
        }
    }
}
