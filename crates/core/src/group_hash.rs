//! Hashes of the groups of jobs.

use std::fmt;
use std::num::ParseIntError;
use std::str::FromStr;

use xxhash_rust::xxh3::xxh3_64;

use crate::jump_hash::LaneHash;

/// Length of the hash of a group, in bytes.
const GROUP_HASH_BYTES: usize = 8;

/// A hash of the name of a group: XXH3-64, never 0. Part of the stored layout.
///
/// Jobs of a queue whose groups share a hash are one group. Of a million groups two share one with a probability of
/// 3 · 10⁻⁸.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct GroupHash(pub [u8; GROUP_HASH_BYTES]);

impl GroupHash {
    /// The hash of the group with this name.
    pub fn of(group: &str) -> Self {
        // 0:0 stands for no group in positions of lists.
        Self(xxh3_64(group.as_bytes()).max(1).to_be_bytes())
    }

    /// Places the jobs of this group in a lane.
    pub fn lane_hash(self) -> LaneHash {
        LaneHash::of(&self.0)
    }

    /// The two halves of the hash.
    const fn halves(self) -> [u32; 2] {
        let hash = u64::from_be_bytes(self.0);
        [(hash >> 32) as u32, hash as u32]
    }
}

/// As scripts write it in names of keys: the two halves as decimal numbers.
impl fmt::Display for GroupHash {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [high, low] = self.halves();
        write!(out, "{high}:{low}")
    }
}

impl FromStr for GroupHash {
    type Err = ParseIntError;

    /// Other spellings of the numbers, such as `01:2`, are read too: compare the text where they are not the same key.
    fn from_str(text: &str) -> Result<Self, ParseIntError> {
        let (high, low) = text.split_once(':').unwrap_or((text, ""));
        let (high, low): (u32, u32) = (high.parse()?, low.parse()?);
        Ok(Self((u64::from(high) << 32 | u64::from(low)).to_be_bytes()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_group_has_the_hash_of_an_earlier_release() {
        let hash = GroupHash::of("tenant-17");
        assert_eq!(hash.to_string(), "2306850167:3737901304");
        assert_eq!(hash.to_string().parse(), Ok(hash));
        assert_eq!(
            GroupHash([0, 0, 0, 1, 255, 255, 255, 255]).to_string(),
            "1:4294967295"
        );
    }
}
