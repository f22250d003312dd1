//! The buckets that this instance leads, to its knowledge.

use std::collections::BTreeSet;

use parking_lot::Mutex;
use prometheus::IntGauge;
use tokio::sync::mpsc;

/// A change in the buckets that this instance leads.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum LeaseChange {
    Gained(u16),
    Lost(u16),
}

/// The locks of the buckets of all servers. A bucket may move to another server at any time, and stays with this
/// instance.
#[derive(Debug)]
pub(crate) struct BucketLeases {
    known: Mutex<LeaseState>,
    changes: mpsc::UnboundedSender<LeaseChange>,
    count: IntGauge,
}

#[derive(Debug, Default)]
struct LeaseState {
    /// Buckets that this instance leads.
    held: BTreeSet<u16>,
    /// Buckets whose lock this instance may hold or not: a call is in flight or has failed.
    unsettled: BTreeSet<u16>,
}

impl BucketLeases {
    /// Without any bucket. `count` is the gauge of buckets that this instance leads.
    pub(crate) fn new(changes: mpsc::UnboundedSender<LeaseChange>, count: IntGauge) -> Self {
        Self {
            known: Mutex::default(),
            changes,
            count,
        }
    }

    /// Of these buckets, the buckets whose locks this instance holds, or may hold.
    pub(crate) fn held_or_unsettled(&self, buckets: &[u16]) -> Vec<u16> {
        let known = self.known.lock();
        let is_ours = |it: &u16| known.held.contains(it) || known.unsettled.contains(it);
        buckets.iter().copied().filter(is_ours).collect()
    }

    /// The buckets that this instance leads.
    pub(crate) fn held(&self) -> BTreeSet<u16> {
        self.known.lock().held.clone()
    }

    /// The number of these buckets that this instance leads.
    pub(crate) fn held_of(&self, buckets: &BTreeSet<u16>) -> usize {
        self.known.lock().held.intersection(buckets).count()
    }

    /// Whether this instance certainly leads a bucket, so that no call is needed.
    pub(crate) fn is_settled(&self, bucket: u16) -> bool {
        let known = self.known.lock();
        known.held.contains(&bucket) && !known.unsettled.contains(&bucket)
    }

    /// Records that calls to acquire these locks are about to be made.
    pub(crate) fn acquiring(&self, buckets: &[u16]) {
        self.known.lock().unsettled.extend(buckets);
    }

    /// Records that these locks are about to be released: this instance does not lead the buckets from now on.
    pub(crate) fn releasing(&self, buckets: &[u16]) {
        for &bucket in buckets {
            self.lost(bucket);
        }
        self.known.lock().unsettled.extend(buckets);
    }

    pub(crate) fn gained(&self, bucket: u16) {
        let mut known = self.known.lock();
        known.unsettled.remove(&bucket);
        if known.held.insert(bucket) {
            let _ = self.changes.send(LeaseChange::Gained(bucket));
            self.count.set(known.held.len() as i64);
        }
    }

    pub(crate) fn lost(&self, bucket: u16) {
        let mut known = self.known.lock();
        known.unsettled.remove(&bucket);
        if known.held.remove(&bucket) {
            let _ = self.changes.send(LeaseChange::Lost(bucket));
            self.count.set(known.held.len() as i64);
        }
    }
}
