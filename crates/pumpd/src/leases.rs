//! Which buckets this instance leads, as far as it knows.

use std::collections::BTreeSet;
use std::sync::{Mutex, MutexGuard, PoisonError};

use metrics::Gauge;
use tokio::sync::mpsc;

/// A change in the buckets that this instance leads.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Change {
    Gained(u16),
    Lost(u16),
}

/// The buckets of all servers: one may move to another server at any time, and stays ours.
#[derive(Debug)]
pub(crate) struct Leases {
    known: Mutex<Known>,
    changes: mpsc::UnboundedSender<Change>,
    count: Gauge,
}

#[derive(Debug, Default)]
struct Known {
    /// What we lead.
    held: BTreeSet<u16>,
    /// Locks that may be ours or not: a call about them is in flight or has failed. The scripts know.
    unsettled: BTreeSet<u16>,
}

impl Leases {
    /// None at first. `count` shows how many there are.
    pub(crate) fn new(changes: mpsc::UnboundedSender<Change>, count: Gauge) -> Self {
        Self {
            known: Mutex::default(),
            changes,
            count,
        }
    }

    /// Those among these buckets whose locks are ours, or may be.
    pub(crate) fn ours(&self, buckets: &[u16]) -> Vec<u16> {
        let known = self.known();
        let is_ours = |it: &u16| known.held.contains(it) || known.unsettled.contains(it);
        buckets.iter().copied().filter(is_ours).collect()
    }

    /// How many of these buckets we lead.
    pub(crate) fn held_of(&self, buckets: &BTreeSet<u16>) -> usize {
        self.known().held.intersection(buckets).count()
    }

    /// Whether no call is needed to know that we lead a bucket.
    pub(crate) fn is_settled(&self, bucket: u16) -> bool {
        let known = self.known();
        known.held.contains(&bucket) && !known.unsettled.contains(&bucket)
    }

    /// Calls for these locks are about to be made.
    pub(crate) fn acquiring(&self, buckets: &[u16]) {
        self.known().unsettled.extend(buckets);
    }

    /// These locks are about to be handed back: we do not lead the buckets from now on.
    pub(crate) fn releasing(&self, buckets: &[u16]) {
        for &bucket in buckets {
            self.lost(bucket);
        }
        self.known().unsettled.extend(buckets);
    }

    pub(crate) fn gained(&self, bucket: u16) {
        let mut known = self.known();
        known.unsettled.remove(&bucket);
        if known.held.insert(bucket) {
            let _ = self.changes.send(Change::Gained(bucket));
            self.count.set(known.held.len() as f64);
        }
    }

    pub(crate) fn lost(&self, bucket: u16) {
        let mut known = self.known();
        known.unsettled.remove(&bucket);
        if known.held.remove(&bucket) {
            let _ = self.changes.send(Change::Lost(bucket));
            self.count.set(known.held.len() as f64);
        }
    }

    fn known(&self) -> MutexGuard<'_, Known> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
