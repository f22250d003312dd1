//! Where the payload of a job is that is not in Redis: in the object store of the cold tier (`docs/cold-tier.md`).
//!
//! An object, a *segment*, has payloads of jobs that are due in the same *partition* of time.

use std::fmt;
use std::str::FromStr;

/// Width of a partition, in ms: 17.5 minutes.
pub const PARTITION_MS: u64 = 1 << 20;
/// Most bytes of an entry that a reference can name. A payload has at most 16 MiB.
pub const COLD_ENTRY_BYTES_MAX: usize = (1 << 24) - 1;
/// Length of an encoded reference, in bytes.
pub const COLD_REFERENCE_BYTES: usize = 17;

/// A part of time, by its number since 1970.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Partition(pub u32);

/// The name of a segment, and how many payloads it has: a listing of names is a count of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SegmentName {
    /// The partition in which its jobs were due when it was written.
    pub partition: Partition,
    /// A random number that no other segment of the partition has.
    pub number: u32,
    /// At most 2^24 − 1.
    pub entries: u32,
}

/// Where the payload of a cold job is. Its record has these bytes in place of the payload.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct ColdReference {
    pub segment: SegmentName,
    /// Where its entry begins in the segment.
    pub offset: u32,
    /// Length of the entry, in bytes: at most [`COLD_ENTRY_BYTES_MAX`].
    pub bytes: u32,
}

/// The text is not the path of a segment.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("is not the name of a segment: PARTITION/NUMBER-ENTRIES")]
pub struct InvalidSegmentName;

impl Partition {
    /// The partition of jobs that are due at this time, in ms since 1970.
    pub const fn of_due_ms(due_at_ms: u64) -> Self {
        let number = due_at_ms / PARTITION_MS;
        Self(if number > 0xFF_FFFF {
            0xFF_FFFF
        } else {
            number as u32
        })
    }

    /// When the partition begins, in ms since 1970.
    pub const fn begin_ms(self) -> u64 {
        self.0 as u64 * PARTITION_MS
    }

    /// When the next partition begins, in ms since 1970.
    pub const fn end_ms(self) -> u64 {
        self.begin_ms() + PARTITION_MS
    }
}

/// As in paths of objects: six hexadecimal digits, so that they are listed in the order of time.
impl fmt::Display for Partition {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{:06x}", self.0)
    }
}

impl FromStr for Partition {
    type Err = InvalidSegmentName;

    fn from_str(text: &str) -> Result<Self, InvalidSegmentName> {
        digits(text, 6).map(Self)
    }
}

/// The path of the object below the folder of the deployment.
impl fmt::Display for SegmentName {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            partition,
            number,
            entries,
        } = self;
        write!(out, "{partition}/{number:08x}-{entries:06x}")
    }
}

impl FromStr for SegmentName {
    type Err = InvalidSegmentName;

    fn from_str(text: &str) -> Result<Self, InvalidSegmentName> {
        let (partition, rest) = text.split_once('/').ok_or(InvalidSegmentName)?;
        let (number, entries) = rest.split_once('-').ok_or(InvalidSegmentName)?;
        Ok(Self {
            partition: partition.parse()?,
            number: digits(number, 8)?,
            entries: digits(entries, 6)?,
        })
    }
}

/// A number with exactly this many hexadecimal digits in lower case.
fn digits(text: &str, length: usize) -> Result<u32, InvalidSegmentName> {
    let is_digit = |byte: &u8| matches!(byte, b'0'..=b'9' | b'a'..=b'f');
    if text.len() != length || !text.as_bytes().iter().all(is_digit) {
        return Err(InvalidSegmentName);
    }
    u32::from_str_radix(text, 16).map_err(|_| InvalidSegmentName)
}

impl ColdReference {
    /// Encodes the reference, big-endian: partition (3 bytes), number (4) and entries (3) of the segment, offset (4) and
    /// length (3) of the entry.
    pub fn encode(&self) -> [u8; COLD_REFERENCE_BYTES] {
        let mut bytes = [0; COLD_REFERENCE_BYTES];
        bytes[0..3].copy_from_slice(&self.segment.partition.0.to_be_bytes()[1..]);
        bytes[3..7].copy_from_slice(&self.segment.number.to_be_bytes());
        bytes[7..10].copy_from_slice(&self.segment.entries.to_be_bytes()[1..]);
        bytes[10..14].copy_from_slice(&self.offset.to_be_bytes());
        bytes[14..17].copy_from_slice(&self.bytes.to_be_bytes()[1..]);
        bytes
    }

    /// Decodes a reference; `None` if there are more or fewer bytes.
    pub fn decode(bytes: &[u8]) -> Option<Self> {
        let bytes: &[u8; COLD_REFERENCE_BYTES] = bytes.try_into().ok()?;
        let number = |from: usize, to: usize| {
            bytes[from..to]
                .iter()
                .fold(0, |number, byte| number << 8 | u32::from(*byte))
        };
        Some(Self {
            segment: SegmentName {
                partition: Partition(number(0, 3)),
                number: number(3, 7),
                entries: number(7, 10),
            },
            offset: number(10, 14),
            bytes: number(14, 17),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SEGMENT: SegmentName = SegmentName {
        partition: Partition(0x19_A2B3),
        number: 0xDEAD_BEEF,
        entries: 77,
    };

    #[test]
    fn a_reference_is_decoded_as_it_was_encoded() {
        let reference = ColdReference {
            segment: SEGMENT,
            offset: 0x0102_0304,
            bytes: 0x00AB_CDEF,
        };
        let bytes = reference.encode();
        assert_eq!(ColdReference::decode(&bytes), Some(reference));
        assert_eq!(ColdReference::decode(&bytes[1..]), None);
        assert_eq!(ColdReference::decode(&[0; 18]), None);
    }

    #[test]
    fn names_of_segments_are_parsed_and_other_names_are_rejected() {
        let name = "19a2b3/deadbeef-00004d";
        assert_eq!(SEGMENT.to_string(), name);
        assert_eq!(name.parse(), Ok(SEGMENT));
        for name in [
            "",
            "19a2b3",
            "19a2b3/",
            "19a2b3/deadbeef",
            "19a2b3/deadbeef-4d",
            "9a2b3/deadbeef-00004d",
            "19A2b3/deadbeef-00004d",
            "19a2b3/deadbeef-00004d.tmp",
            "+9a2b3/deadbeef-00004d",
            "x/19a2b3/deadbeef-00004d",
        ] {
            assert_eq!(
                name.parse::<SegmentName>(),
                Err(InvalidSegmentName),
                "{name}"
            );
        }
    }

    #[test]
    fn a_partition_has_the_times_from_its_begin_until_its_end() {
        let partition = Partition(1_700_000);
        assert_eq!(Partition::of_due_ms(partition.begin_ms()), partition);
        assert_eq!(Partition::of_due_ms(partition.end_ms() - 1), partition);
        assert_eq!(
            Partition::of_due_ms(partition.end_ms()),
            Partition(1_700_001)
        );
        assert_eq!(Partition::of_due_ms(u64::MAX), Partition(0xFF_FFFF));
    }
}
