//! The slots of a wheel: the first timer of each, and which have one.

/// The number of levels.
pub(crate) const LEVELS: usize = 11;

/// No timer.
pub(crate) const NONE: u32 = u32::MAX;

const BITS: u32 = 6;
const WIDTH: usize = 1 << BITS;

/// The first timer of each slot.
#[derive(Debug)]
pub(crate) struct Slots {
    heads: [u32; LEVELS * WIDTH],
    /// By level: the slots that are not empty.
    occupied: [u64; LEVELS],
    /// The levels that are not empty.
    levels: u16,
}

/// A slot that is not empty.
#[derive(Debug, Clone, Copy)]
pub(crate) struct FirstSlot {
    pub(crate) index: u16,
    /// The first tick of it.
    pub(crate) begin: u64,
}

impl FirstSlot {
    /// Returns whether it spans one tick only.
    pub(crate) const fn is_of_lowest_level(self) -> bool {
        (self.index as usize) < WIDTH
    }
}

impl Default for Slots {
    fn default() -> Self {
        Self {
            heads: [NONE; LEVELS * WIDTH],
            occupied: [0; LEVELS],
            levels: 0,
        }
    }
}

impl Slots {
    /// Returns the slot for a tick that is not before `now`: in the lowest level whose slots the two do not share.
    pub(crate) const fn index_of(tick: u64, now: u64) -> u16 {
        let differing = u64::BITS - ((tick ^ now) | 1).leading_zeros();
        let level = (differing - 1) / BITS;
        let slot = (tick >> (level * BITS)) as usize % WIDTH;
        (level as usize * WIDTH + slot) as u16
    }

    /// Returns the first timer of a slot.
    pub(crate) const fn head(&self, index: u16) -> u32 {
        self.heads[index as usize]
    }

    /// Replaces the first timer of a slot; returns the one before.
    pub(crate) const fn replace_head(&mut self, index: u16, head: u32) -> u32 {
        let (level, bit) = (index as usize / WIDTH, 1 << (index as usize % WIDTH));
        if head == NONE {
            self.occupied[level] &= !bit;
            if self.occupied[level] == 0 {
                self.levels &= !(1 << level);
            }
        } else {
            self.occupied[level] |= bit;
            self.levels |= 1 << level;
        }
        std::mem::replace(&mut self.heads[index as usize], head)
    }

    /// Returns the earliest slot that is not empty, of slots with the same begin the widest: its timers must move down
    /// first.
    pub(crate) fn first(&self, now: u64) -> Option<FirstSlot> {
        let mut first: Option<FirstSlot> = None;
        let mut levels = self.levels;
        while levels != 0 {
            let level = levels.trailing_zeros();
            levels &= levels - 1;
            // All slots of a level are in the same slot of the level above as `now`, and none is before it.
            let slot = self.occupied[level as usize].trailing_zeros();
            let shift = level * BITS;
            let above = now.checked_shr(shift + BITS).unwrap_or(0);
            let above = above.checked_shl(shift + BITS).unwrap_or(0);
            let begin = above | u64::from(slot) << shift;
            if first.is_none_or(|first| begin <= first.begin) {
                let index = (level as usize * WIDTH + slot as usize) as u16;
                first = Some(FirstSlot { index, begin });
            }
        }
        first
    }
}
