//! The slots of far timers: their width, and the slot of a due time. Part of the stored layout.

/// The width of the slots of far timers in one deployment, in ms.
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
    #[must_use]
    pub const fn ms(self) -> u32 {
        self.0
    }

    /// The slot of a due time.
    #[must_use]
    pub const fn slot_of(self, due_at_ms: u64) -> u64 {
        due_at_ms / self.0 as u64
    }
}

impl Default for SlotWidth {
    fn default() -> Self {
        Self(Self::DEFAULT_MS)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn widths_are_bounded_and_slots_begin_at_multiples() {
        for ms in [0, 99, 86_400_001, u32::MAX] {
            assert_eq!(SlotWidth::new(ms), Err(InvalidSlotWidth { ms }));
        }
        let width = SlotWidth::new(100).unwrap();
        let slots = [0, 99, 100, 199, 200].map(|due_at_ms| width.slot_of(due_at_ms));
        assert_eq!(slots, [0, 0, 1, 1, 2]);
        assert_eq!(SlotWidth::default().ms(), SlotWidth::DEFAULT_MS);
    }
}
