//! A set of lanes.

use tidegate_core::limits::LANES_MAX;

/// Some lanes of a queue.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct LaneSet(u64);

const _: () = assert!(LANES_MAX as u32 <= u64::BITS);

impl LaneSet {
    /// Adds a lane.
    pub(crate) const fn insert(&mut self, lane: u16) {
        self.0 |= 1 << lane;
    }

    pub(crate) const fn remove(&mut self, lane: u16) {
        self.0 &= !(1 << lane);
    }

    pub(crate) const fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// The first of the lanes `0..lanes` that is not in the set, round-robin from `from`.
    pub(crate) fn first_without(self, from: u16, lanes: u16) -> Option<u16> {
        let round = (0..lanes).map(|step| (from % lanes + step) % lanes);
        round.into_iter().find(|lane| self.0 & (1 << lane) == 0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lanes_that_are_not_in_the_set_are_found_round_robin() {
        let mut set = LaneSet::default();
        assert!(set.is_empty());
        assert_eq!(set.first_without(0, 1), Some(0));
        assert_eq!(set.first_without(63, LANES_MAX), Some(63));
        for lane in [0, 2, 3] {
            set.insert(lane);
        }
        assert_eq!(set.first_without(2, 4), Some(1));
        assert_eq!(set.first_without(7, 4), Some(1));
        set.insert(1);
        assert_eq!(set.first_without(2, 4), None);
        assert_eq!(set.first_without(2, 5), Some(4));
        set.remove(3);
        assert_eq!(set.first_without(0, 4), Some(3));
    }
}
