//! Which primary has which slots.

use std::sync::Arc;

use super::slot::Slot;
use crate::link::server::Server;

/// The primaries of a cluster that can be reached, and their slots.
#[derive(Debug, Default)]
pub(crate) struct Topology {
    /// In the order of the slots.
    ranges: Vec<Owned>,
}

/// Slots next to each other, and the server that has them.
#[derive(Debug)]
pub(super) struct Owned {
    pub(super) first: Slot,
    pub(super) last: Slot,
    pub(super) server: Arc<Server>,
}

impl Topology {
    pub(super) fn new(mut ranges: Vec<Owned>) -> Self {
        ranges.sort_by_key(|range| range.first);
        Self { ranges }
    }

    /// The server that has a slot, if anybody has it who can be reached.
    pub(super) fn server_of(&self, slot: Slot) -> Option<&Arc<Server>> {
        let next = self.ranges.partition_point(|range| range.first <= slot);
        let range = self.ranges.get(next.checked_sub(1)?)?;
        (slot <= range.last).then_some(&range.server)
    }

    /// All servers, each once.
    pub(crate) fn servers(&self) -> Vec<Arc<Server>> {
        let mut servers: Vec<Arc<Server>> = Vec::new();
        for range in &self.ranges {
            if !servers.iter().any(|one| Arc::ptr_eq(one, &range.server)) {
                servers.push(Arc::clone(&range.server));
            }
        }
        servers
    }

    /// Whether a server has slots.
    pub(super) fn has(&self, server: &Arc<Server>) -> bool {
        let mut ranges = self.ranges.iter();
        ranges.any(|range| Arc::ptr_eq(&range.server, server))
    }

    /// Whether every slot is somebody's.
    pub(crate) fn is_whole(&self) -> bool {
        let slots = self.ranges.iter();
        let covered: u32 = slots
            .map(|range| u32::from(range.last.0) - u32::from(range.first.0) + 1)
            .sum();
        covered == u32::from(Slot::COUNT)
    }

    pub(super) fn is_same(&self, other: &Self) -> bool {
        let same = |one: &Owned, other: &Owned| {
            (one.first, one.last) == (other.first, other.last)
                && Arc::ptr_eq(&one.server, &other.server)
        };
        let mut pairs = self.ranges.iter().zip(&other.ranges);
        self.ranges.len() == other.ranges.len() && pairs.all(|(one, other)| same(one, other))
    }
}
