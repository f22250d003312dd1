//! How many lanes queues have, as this process knows it; and calls that depend on it.
//!
//! The table in Redis is read once a second, and at once when there is a sign that it has changed. So a
//! process may be behind, and still no job is lost:
//!
//! * Whoever does not know of a lane that was opened does not serve it, for about a second.
//! * Whoever takes a lane for open that was closed stores jobs in it that nobody may look for. So a table is
//!   believed for [`BELIEVED_FOR`] only; whoever could not read it for so long stores jobs in lane 0, which
//!   is always open. A call that took longer says afterwards that its lane is in use. And lanes that are
//!   closed are served until they were found empty at least [`QUIET`] after the last of them was closed.

mod set;

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use arc_swap::ArcSwap;
use tidegate_core::{JobId, LaneCounts, NewJob, QueueKey, placement};
use tidegate_store::{Published, Stats, Store, StoreError};
use tokio::sync::Notify;
use tokio::time::{Instant, sleep};

use crate::metrics::storage_failed;
pub(crate) use set::LaneSet;

/// Between two looks at the table.
const LOOK_INTERVAL: Duration = Duration::from_secs(1);
/// For how long the table is believed after it was read.
const BELIEVED_FOR: Duration = Duration::from_secs(5);
/// For so long nobody has stored a job in a closed lane, or has said that the lane is in use: longer than a
/// table is believed and then a call takes that does not say so.
const QUIET: Duration = Duration::from_secs(15);
const _: () = assert!(QUIET.as_secs() > 2 * BELIEVED_FOR.as_secs());
/// Closed lanes are looked at once in so many looks at the table.
const LOOKS_PER_SETTLING: u32 = 5;

/// The lanes of the queues of one Redis deployment.
#[derive(Debug)]
pub(crate) struct LaneTable {
    store: Store,
    known: ArcSwap<Known>,
    /// Asks for a look at the table in Redis.
    look: Notify,
    /// Tells of lanes that may have come or gone.
    changed: Notify,
}

#[derive(Debug, Default)]
struct Known {
    /// Queues that are not in here have one lane.
    counts: HashMap<QueueKey, LaneCounts>,
    read_at: Option<Instant>,
}

impl LaneTable {
    /// A table that knows nothing yet.
    pub(crate) fn new(store: Store) -> Self {
        Self {
            store,
            known: ArcSwap::default(),
            look: Notify::new(),
            changed: Notify::new(),
        }
    }

    /// How many lanes may hold jobs of a queue.
    pub(crate) fn used(&self, queue: &QueueKey) -> u16 {
        self.known.load().counts(queue).used
    }

    /// How many lanes take new jobs of a queue; one while the table cannot be believed.
    pub(crate) fn open(&self, queue: &QueueKey) -> u16 {
        self.known.load().open(queue)
    }

    /// The most lanes that a queue can have.
    pub(crate) fn lanes_max(&self) -> u16 {
        placement::lanes_max(self.store.buckets())
    }

    /// The queues that have more than one lane.
    pub(crate) fn queues(&self) -> Vec<QueueKey> {
        self.known.load().counts.keys().cloned().collect()
    }

    /// What the table in Redis says now.
    ///
    /// # Errors
    /// Redis is unavailable.
    pub(crate) async fn read(&self) -> Result<HashMap<QueueKey, LaneCounts>, StoreError> {
        let asked_at = Instant::now();
        let counts = self.store.lanes().list().await?;
        let read_at = Some(asked_at);
        let is_same = self.known.load().counts == counts;
        let known = Known {
            counts: counts.clone(),
            read_at,
        };
        self.known.store(Arc::new(known));
        if !is_same {
            self.changed.notify_one();
        }
        Ok(counts)
    }

    /// Says how many lanes of a queue take new jobs, and goes by it at once.
    ///
    /// # Errors
    /// Redis is unavailable.
    pub(crate) async fn set(&self, queue: &QueueKey, open: u16) -> Result<LaneCounts, StoreError> {
        let counts = self.store.lanes().set(queue, open).await?;
        self.read().await?;
        Ok(counts)
    }

    /// Stores jobs in a lane, and sees to it that the lane is served. Errors are those of the store; the
    /// jobs may be there.
    pub(crate) async fn publish(
        &self,
        queue: &QueueKey,
        lane: u16,
        jobs: &[NewJob],
        replaces: Option<JobId>,
    ) -> Result<Published, StoreError> {
        let began_at = Instant::now();
        let publishing = self
            .store
            .publish_with_receipt(queue.lane(lane), jobs, replaces);
        let published = publishing.await;
        if lane > 0 && began_at.elapsed() > BELIEVED_FOR {
            self.store.lanes().cover(queue, lane + 1).await?;
        }
        published
    }

    /// There is a sign that the table has changed.
    pub(crate) fn look(&self) {
        self.look.notify_one();
    }

    /// Waits until the table was found changed.
    pub(crate) async fn changed(&self) {
        self.changed.notified().await;
    }

    /// Follows the table, and has closed lanes that are empty served no more, for ever.
    pub(crate) async fn follow(&self) {
        // Not all processes look at closed lanes at the same time.
        let mut looks = rand::random_range(0..LOOKS_PER_SETTLING);
        loop {
            match self.read().await {
                Ok(counts) if looks.is_multiple_of(LOOKS_PER_SETTLING) => self.settle(counts).await,
                Ok(_) => {}
                Err(error) => storage_failed(&error),
            }
            looks = looks.wrapping_add(1);
            tokio::select! {
                () = self.look.notified() => {}
                () = sleep(LOOK_INTERVAL) => {}
            }
        }
    }

    async fn settle(&self, counts: HashMap<QueueKey, LaneCounts>) {
        for (queue, counts) in counts {
            if counts.used > counts.open
                && let Err(error) = self.settle_queue(&queue, counts).await
            {
                storage_failed(&error);
            }
        }
    }

    /// Looks at the closed lanes of a queue, the last one first, until one is not empty.
    async fn settle_queue(&self, queue: &QueueKey, counts: LaneCounts) -> Result<(), StoreError> {
        let mut still = counts.used;
        while still > counts.open {
            let last = queue.lane(still - 1);
            if self.store.stats(last).await? != Stats::default() {
                break;
            }
            still -= 1;
        }
        if still < counts.used {
            let lanes = self.store.lanes();
            if lanes.settle(queue, counts, still, QUIET).await? {
                tracing::info!(%queue, lanes = still, "closed lanes are empty");
                self.look();
            }
        }
        Ok(())
    }
}

impl Known {
    fn open(&self, queue: &QueueKey) -> u16 {
        let open = self.counts(queue).open;
        match self.read_at {
            // Most queues have one lane, and no use for the clock.
            _ if open == 1 => 1,
            Some(read_at) if read_at.elapsed() <= BELIEVED_FOR => open,
            _ => 1,
        }
    }

    fn counts(&self, queue: &QueueKey) -> LaneCounts {
        if self.counts.is_empty() {
            return LaneCounts::ONE;
        }
        self.counts.get(queue).copied().unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_read_too_long_ago_is_believed_of_the_first_lane_only() {
        let [hot, other] = ["shop/hot", "shop/other"].map(|name| QueueKey::try_from(name).unwrap());
        let open_when_read = |read_at| {
            let counts = HashMap::from([(hot.clone(), LaneCounts { open: 4, used: 8 })]);
            let known = Known { counts, read_at };
            // Jobs that are in a lane stay there, however old the table is.
            assert_eq!((known.counts(&hot).used, known.counts(&other).used), (8, 1));
            (known.open(&hot), known.open(&other))
        };
        let before = |time| Instant::now().checked_sub(time);
        assert_eq!(open_when_read(None), (1, 1));
        assert_eq!(open_when_read(before(Duration::ZERO)), (4, 1));
        let too_long = BELIEVED_FOR + Duration::from_millis(1);
        assert_eq!(open_when_read(before(too_long)), (1, 1));
    }
}
