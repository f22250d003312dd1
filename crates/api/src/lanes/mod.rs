//! How many lanes queues have, as this process knows it; and calls that depend on it.
//!
//! The table in Redis is read once a second, and at once when there is a sign that it has changed. A process may be
//! behind by any time, and no job is lost: a lane that consumers do not look into is closed in its bucket, where a publish
//! is refused. A refused publish goes to lane 0, which is never closed (`docs/decisions/0022-lanes.md`).

mod down;
mod overdue;
mod publish;
mod set;

use std::collections::HashSet;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use arc_swap::ArcSwap;
use futures_util::future::join_all;
use tidegate_core::{LANES_SETTLE_INTERVAL, LaneCounts, LaneRow, QueueKey, placement};
use tidegate_store::{LaneRows, Store, StoreError};
use tokio::sync::Notify;
use tokio::time::sleep;

use crate::metrics::storage_failed;
use down::DownBuckets;
use overdue::OverdueServers;
pub(crate) use set::LaneSet;

/// Between two looks at the table.
const LOOK_INTERVAL: Duration = Duration::from_secs(1);

/// The lanes of the queues of one Redis deployment.
#[derive(Debug)]
pub(crate) struct LaneTable {
    store: Store,
    known: ArcSwap<LaneRows>,
    /// Lanes that refused a publish although the table had them open.
    refused: Mutex<HashSet<(QueueKey, u16)>>,
    /// Where publishes fail.
    down: DownBuckets,
    /// Where publishes take long.
    overdue: OverdueServers,
    /// Asks for a look at the table in Redis.
    look: Notify,
    /// Notifies of lanes that may have come or gone.
    changed: Notify,
}

impl LaneTable {
    /// A table that knows nothing yet.
    pub(crate) fn new(store: Store) -> Self {
        Self {
            store,
            known: ArcSwap::default(),
            refused: Mutex::default(),
            down: DownBuckets::default(),
            overdue: OverdueServers::default(),
            look: Notify::new(),
            changed: Notify::new(),
        }
    }

    /// How many lanes may hold jobs of a queue.
    pub(crate) fn used(&self, queue: &QueueKey) -> u16 {
        self.known.load().row(queue).counts.used
    }

    /// How many lanes take new jobs of a queue.
    pub(crate) fn open(&self, queue: &QueueKey) -> u16 {
        self.known.load().row(queue).counts.open
    }

    /// The most lanes that a queue can have.
    pub(crate) fn lanes_max(&self) -> u16 {
        placement::lanes_max(self.store.buckets())
    }

    /// The queues that have more than one lane.
    pub(crate) fn queues(&self) -> Vec<QueueKey> {
        self.known.load().by_queue.keys().cloned().collect()
    }

    /// What the table in Redis says now.
    ///
    /// # Errors
    /// Redis is unavailable.
    pub(crate) async fn read(&self) -> Result<Arc<LaneRows>, StoreError> {
        let known = self.known.load_full();
        let mut rows = self.store.lanes().rows().await?;
        if rows.last_epoch < known.last_epoch {
            self.restore(&known, &rows).await?;
            rows = self.store.lanes().rows().await?;
        }
        let rows = Arc::new(rows);
        self.known.store(Arc::clone(&rows));
        if rows.by_queue != known.by_queue {
            self.changed.notify_one();
        }
        Ok(rows)
    }

    /// Has all lanes in use again that were, since a failover lost the last changes of the table: jobs may be in them.
    async fn restore(&self, known: &LaneRows, rows: &LaneRows) -> Result<(), StoreError> {
        for (queue, was) in &known.by_queue {
            let used = was.counts.used;
            if used > rows.row(queue).counts.used {
                tracing::warn!(%queue, used, "restored lanes: Redis lost the last change of how many there are; set it again");
                let lanes = self.store.lanes();
                lanes.raise(queue, used, known.last_epoch).await?;
            }
        }
        Ok(())
    }

    /// Sets how many lanes of a queue take new jobs, here at once. A lane that cannot be opened now is opened when a
    /// publish finds it closed.
    ///
    /// # Errors
    /// Redis is unavailable.
    pub(crate) async fn set(&self, queue: &QueueKey, open: u16) -> Result<LaneCounts, StoreError> {
        let row = self.store.lanes().set(queue, open).await?;
        self.read().await?;
        let opening = (1..open).map(|lane| self.open_lane(queue, lane, row));
        join_all(opening).await;
        Ok(row.counts)
    }

    /// Opens a lane in its bucket as long as the row of its queue has it open.
    async fn open_lane(&self, queue: &QueueKey, lane: u16, row: LaneRow) {
        if let Err(error) = self.try_open_lane(queue, lane, row).await {
            tracing::warn!(%queue, lane, %error, "failed to open a lane; retrying when a publish finds it closed");
            storage_failed(&error);
        }
    }

    /// A lane that was closed with a later epoch than that of the row was closed by a later row. Either the queue was
    /// set again meanwhile, or a failover lost that row. The row as it is now gets a later epoch and decides.
    async fn try_open_lane(
        &self,
        queue: &QueueKey,
        lane: u16,
        mut row: LaneRow,
    ) -> Result<(), StoreError> {
        while lane < row.counts.open {
            let Some(closed_with) = self.store.open_lane(queue.lane(lane), row.epoch).await? else {
                break;
            };
            row = self.store.lanes().raise(queue, 1, closed_with).await?;
        }
        Ok(())
    }

    fn lock_refused(&self) -> MutexGuard<'_, HashSet<(QueueKey, u16)>> {
        self.refused.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// There is a sign that the table has changed.
    pub(crate) fn look(&self) {
        self.look.notify_one();
    }

    /// Waits until the table was found changed.
    pub(crate) async fn changed(&self) {
        self.changed.notified().await;
    }

    /// Follows the table, opens lanes that refused a publish, and takes closed lanes that are empty out of use, for ever.
    pub(crate) async fn follow(&self) {
        tokio::join!(
            self.follow_table(),
            self.settle_in_turn(),
            self.down.probe(&self.store)
        );
    }

    async fn follow_table(&self) {
        loop {
            match self.read().await {
                Ok(rows) => self.open_refused(&rows).await,
                Err(error) => {
                    storage_failed(&error);
                    // Publishes that are refused meanwhile must not make this a busy loop.
                    sleep(LOOK_INTERVAL).await;
                }
            }
            tokio::select! {
                () = self.look.notified() => {}
                () = sleep(LOOK_INTERVAL) => {}
            }
        }
    }

    async fn open_refused(&self, rows: &LaneRows) {
        let refused = std::mem::take(&mut *self.lock_refused());
        let opening = refused.iter();
        let opening = opening.map(|(queue, lane)| self.open_lane(queue, *lane, rows.row(queue)));
        join_all(opening).await;
    }

    async fn settle_in_turn(&self) {
        // Not all processes look at closed lanes at the same time.
        sleep(LANES_SETTLE_INTERVAL.mul_f64(rand::random())).await;
        loop {
            for (queue, row) in &self.known.load_full().by_queue {
                if row.counts.used > row.counts.open
                    && let Err(error) = self.settle(queue, *row).await
                {
                    storage_failed(&error);
                }
            }
            sleep(LANES_SETTLE_INTERVAL).await;
        }
    }

    /// Closes lanes of a queue, the last one first, until one is not empty.
    async fn settle(&self, queue: &QueueKey, row: LaneRow) -> Result<(), StoreError> {
        let LaneCounts { open, used } = row.counts;
        let mut still = used;
        while still > open
            && self
                .store
                .close_lane(queue.lane(still - 1), row.epoch)
                .await?
        {
            still -= 1;
        }
        if still < used && self.store.lanes().settle(queue, row, still).await? {
            tracing::info!(%queue, lanes = still, "closed lanes are empty");
            self.look();
        }
        Ok(())
    }
}
