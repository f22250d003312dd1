//! The lanes of keys and groups.

/// The part of the hash of a key or group that decides in which lane of its queue a job is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LaneHash(u32);

impl LaneHash {
    /// The last four bytes of a hash.
    pub(crate) fn of(hash: &[u8]) -> Self {
        let last = hash.iter().rev().take(4).rev();
        Self(last.fold(0, |bytes, byte| bytes << 8 | u32::from(*byte)))
    }

    /// The lane in a queue with so many lanes: jump consistent hashing (Lamping and Veach 2014). Of a queue that gets more
    /// lanes only those hashes change their lane that go to a new one.
    pub fn lane(self, lanes: u16) -> u16 {
        let (mut state, mut lane, mut next) = (u64::from(self.0), 0, 0);
        while next < u64::from(lanes) {
            lane = next;
            state = state
                .wrapping_mul(2_862_933_555_777_941_757)
                .wrapping_add(1);
            // (lane + 1) · 2^31 / (a random number of 1 to 2^31), rounded down.
            next = ((lane + 1) << 31) / ((state >> 33) + 1);
        }
        u16::try_from(lane).unwrap_or(0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hashes_are_spread_evenly_and_move_only_to_new_lanes() {
        let hashes = || (0..8000_u32).map(|number| LaneHash(number.wrapping_mul(0x9E37_79B9)));
        let mut of_lanes = [0; 8];
        for hash in hashes() {
            of_lanes[usize::from(hash.lane(8))] += 1;
            let (before, after) = (hash.lane(5), hash.lane(8));
            assert!(after == before || after >= 5);
            assert_eq!(hash.lane(1), 0);
        }
        assert!(
            of_lanes.iter().all(|hashes| (850..1150).contains(hashes)),
            "{of_lanes:?}"
        );
    }
}
