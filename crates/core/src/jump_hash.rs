//! The lane of a hash.

/// The lane of a hash in a queue with so many lanes: jump consistent hashing (Lamping and Veach 2014). Of a queue that
/// gets more lanes only those hashes change their lane that go to a new one.
pub(crate) fn lane_of_hash(hash: u64, lanes: u16) -> u16 {
    let (mut state, mut lane, mut next) = (hash, 0, 0);
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hashes_are_spread_evenly_and_move_only_to_new_lanes() {
        let hashes = || (0..8000_u64).map(|number| number.wrapping_mul(0x9E37_79B9_7F4A_7C15));
        let mut of_lanes = [0; 8];
        for hash in hashes() {
            of_lanes[usize::from(lane_of_hash(hash, 8))] += 1;
            let (before, after) = (lane_of_hash(hash, 5), lane_of_hash(hash, 8));
            assert!(after == before || after >= 5);
            assert_eq!(lane_of_hash(hash, 1), 0);
        }
        assert!(
            of_lanes.iter().all(|hashes| (850..1150).contains(hashes)),
            "{of_lanes:?}"
        );
    }
}
