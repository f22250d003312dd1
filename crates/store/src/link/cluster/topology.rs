//! The primary of each slot.

use std::sync::Arc;

use tidegate_core::hash_slot::HASH_SLOTS;

use super::view::SlotRange;
use crate::link::server::StoreServer;

/// The reachable primaries of a cluster, and their slots.
#[derive(Debug, Default)]
pub(crate) struct Topology {
    /// Sorted by slot.
    ranges: Vec<SlotRange<Arc<StoreServer>>>,
}

impl Topology {
    pub(super) fn new(mut ranges: Vec<SlotRange<Arc<StoreServer>>>) -> Self {
        ranges.sort_by_key(|range| range.first);
        Self { ranges }
    }

    /// The server that has a slot; `None` if no reachable server does.
    pub(super) fn server_of(&self, slot: u16) -> Option<&Arc<StoreServer>> {
        let next = self.ranges.partition_point(|range| range.first <= slot);
        let range = self.ranges.get(next.checked_sub(1)?)?;
        (slot <= range.last).then_some(&range.primary)
    }

    /// All servers, each once.
    pub(crate) fn servers(&self) -> Vec<Arc<StoreServer>> {
        let mut servers: Vec<Arc<StoreServer>> = Vec::new();
        for range in &self.ranges {
            if !servers.iter().any(|one| Arc::ptr_eq(one, &range.primary)) {
                servers.push(Arc::clone(&range.primary));
            }
        }
        servers
    }

    /// Whether a server has slots.
    pub(super) fn has(&self, server: &Arc<StoreServer>) -> bool {
        let mut ranges = self.ranges.iter();
        ranges.any(|range| Arc::ptr_eq(&range.primary, server))
    }

    /// Whether every slot has a reachable server.
    pub(crate) fn is_whole(&self) -> bool {
        let slots = self.ranges.iter();
        let covered: u32 = slots
            .map(|range| u32::from(range.last) - u32::from(range.first) + 1)
            .sum();
        covered == u32::from(HASH_SLOTS)
    }

    pub(super) fn is_same(&self, other: &Self) -> bool {
        let mut pairs = self.ranges.iter().zip(&other.ranges);
        self.ranges.len() == other.ranges.len()
            && pairs.all(|(one, other)| {
                (one.first, one.last) == (other.first, other.last)
                    && Arc::ptr_eq(&one.primary, &other.primary)
            })
    }
}
