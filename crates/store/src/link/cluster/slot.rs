//! Which of the hash slots a key is in.

use tidegate_core::hash_slot::{HASH_SLOTS, hash_slot};

/// A hash slot.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Slot(pub(crate) u16);

impl Slot {
    /// How many there are.
    pub(crate) const COUNT: u16 = HASH_SLOTS;

    /// The slot of a key.
    pub(crate) fn of(key: &[u8]) -> Self {
        Self(hash_slot(key))
    }
}
