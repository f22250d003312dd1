//! The lane table of a Redis deployment, as this process has read it.
//!
//! The table in Redis is read once a second, and at once when an event suggests that it has changed. A stale table
//! loses no job: a lane that is not in use is closed in its bucket, where a publish is rejected. A rejected publish
//! goes to lane 0, which is never closed (`docs/decisions/0022-lanes.md`). For jobs with keys: `keys.rs`.

mod keys;
mod set;
mod share;

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use arc_swap::ArcSwap;
use futures_util::future::join_all;
use parking_lot::Mutex;
use tidegate_core::{LANES_SETTLE_INTERVAL, LaneCounts, LaneRow, QueueKey, placement, share_of};
use tidegate_store::{LaneRows, Store, StoreError};
use tokio::sync::{Mutex as TurnLock, Notify};
use tokio::time::sleep;

use crate::metrics::storage_failure::record_store_error;
use crate::queue::table_reader::TableReader;
use keys::FormerNumbers;
pub(crate) use keys::{IDEMPOTENCY_WINDOW_MS, PLACEMENTS_MAX};
pub(crate) use set::LaneSet;
pub(crate) use share::running_share_of;

/// How often a set of the number of lanes is repeated after the table was settled or restored.
const SETS_MAX: usize = 3;

/// The lanes of the queues of one Redis deployment.
#[derive(Debug)]
pub struct LaneTable {
    store: Store,
    known: ArcSwap<LaneRows>,
    /// Lanes that rejected a publish as closed, although the table had them open.
    rejected: Mutex<HashSet<(QueueKey, u16)>>,
    reader: TableReader,
    /// One read at a time: its table is later than the one of the read before. Rows that a failover has lost, and that
    /// are not restored yet.
    reading: TurnLock<HashMap<QueueKey, LaneRow>>,
    formers: FormerNumbers,
    /// Notified when a read has found other rows than before.
    changed: Notify,
}

impl LaneTable {
    /// Creates a table that has not been read yet: every queue has one lane.
    pub fn new(store: Store) -> Self {
        Self {
            store,
            known: ArcSwap::default(),
            rejected: Mutex::default(),
            reader: TableReader::default(),
            reading: TurnLock::default(),
            formers: FormerNumbers::default(),
            changed: Notify::new(),
        }
    }

    /// The number of lanes that may hold jobs of a queue; at least 1.
    pub fn used(&self, queue: &QueueKey) -> u16 {
        self.known.load().row(queue).counts.used
    }

    /// The number of jobs that a lane may hold, if its queue may hold `max_jobs`.
    pub(crate) fn share_of(
        &self,
        queue: &QueueKey,
        lane: u16,
        max_jobs: Option<u64>,
    ) -> Option<u64> {
        max_jobs.map(|jobs| share_of(lane, self.used(queue), jobs))
    }

    /// The number of lanes that take new jobs of a queue; at least 1.
    pub fn open(&self, queue: &QueueKey) -> u16 {
        self.known.load().row(queue).counts.open
    }

    /// The address of the server of a lane, if known.
    pub fn server_of(&self, queue: &QueueKey, lane: u16) -> Option<Arc<str>> {
        let bucket = self.store.bucket_of(queue.lane(lane));
        self.store.server_of(bucket)
    }

    /// Records that a lane rejected a publish as closed, although the table has it open. The lane is opened in its
    /// bucket, unless the table has changed.
    pub fn refused(&self, queue: &QueueKey, lane: u16) {
        self.rejected.lock().insert((queue.clone(), lane));
        self.request_read();
    }

    /// The most lanes that a queue can have in this deployment; at most 64.
    pub fn lanes_max(&self) -> u16 {
        placement::lanes_max(self.store.buckets())
    }

    /// The queues that have more than one lane.
    pub fn queues(&self) -> Vec<QueueKey> {
        self.known.load().by_queue.keys().cloned().collect()
    }

    /// Reads the table from Redis. If a failover lost changes that this process has read, the lanes that were in use
    /// are restored first.
    ///
    /// # Errors
    /// The store failed.
    pub async fn read(&self) -> Result<Arc<LaneRows>, StoreError> {
        let mut lost = self.reading.lock().await;
        let known = self.known.load_full();
        let mut rows = self.store.lanes().rows().await?;
        if rows.last_epoch < known.last_epoch {
            let had = known.by_queue.iter();
            let missing = had.filter(|(queue, row)| rows.row(queue) != **row);
            lost.extend(missing.map(|(queue, row)| (queue.clone(), *row)));
        }
        if !lost.is_empty() {
            self.restore(&mut lost, known.last_epoch).await?;
            rows = self.store.lanes().rows().await?;
        }
        let rows = Arc::new(rows);
        self.known.store(Arc::clone(&rows));
        if rows.by_queue != known.by_queue {
            self.changed.notify_one();
        }
        Ok(rows)
    }

    /// Puts lanes in use again that a failover has taken from the table, because they may hold jobs, and the numbers by
    /// which keys may be placed. If that fails, the next read continues.
    async fn restore(
        &self,
        lost: &mut HashMap<QueueKey, LaneRow>,
        above: u64,
    ) -> Result<(), StoreError> {
        for (queue, row) in lost.clone() {
            let used = row.counts.used;
            tracing::warn!(%queue, used, "restored lanes after Redis lost the last change of the lane table; set the number of lanes of the queue again");
            let lanes = self.store.lanes();
            lanes.raise(&queue, used, above, Some(row.numbers)).await?;
            lost.remove(&queue);
        }
        Ok(())
    }

    /// Sets the number of lanes that take new jobs of a queue: here at once, in other processes within a second. A lane
    /// that cannot be opened now is opened when a publish finds it closed.
    ///
    /// # Errors
    /// The store failed. [`StoreError::KeysUnsettled`]: nothing changed.
    pub async fn set(&self, queue: &QueueKey, open: u16) -> Result<LaneCounts, StoreError> {
        let mut row = self.try_set(queue, open).await;
        for _ in 0..SETS_MAX {
            match row {
                Err(StoreError::KeysUnsettled(_)) => {
                    // Another process may change the row meanwhile.
                    let known = self.read().await?.row(queue);
                    self.settle_numbers(queue, known).await?;
                }
                // The read restores what is lost.
                Err(StoreError::LanesLost) => drop(self.read().await?),
                row => return self.opened(queue, row?).await,
            }
            row = self.try_set(queue, open).await;
        }
        self.opened(queue, row?).await
    }

    /// After the number of lanes was set: opens the lanes of the row.
    async fn opened(&self, queue: &QueueKey, row: LaneRow) -> Result<LaneCounts, StoreError> {
        let open = row.counts.open;
        self.read().await?;
        let opening = (1..open).map(|lane| self.open_lane(queue, lane, row));
        join_all(opening).await;
        Ok(row.counts)
    }

    async fn try_set(&self, queue: &QueueKey, open: u16) -> Result<LaneRow, StoreError> {
        let above = self.known.load().last_epoch;
        self.store.lanes().set(queue, open, above).await
    }

    /// Opens a lane in its bucket if the row of its queue has it open. A failure is logged.
    async fn open_lane(&self, queue: &QueueKey, lane: u16, row: LaneRow) {
        if let Err(error) = self.try_open_lane(queue, lane, row).await {
            tracing::warn!(%queue, lane, %error, "failed to open a lane; retrying when a publish finds it closed");
            record_store_error(&error);
        }
    }

    /// A marker with a later epoch than the row was written for a later row: the queue was set again meanwhile, or a
    /// failover lost that row. In both cases the current row gets a later epoch than the marker, and opening is
    /// retried.
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
            let lanes = self.store.lanes();
            row = lanes.raise(queue, 1, closed_with, None).await?;
        }
        Ok(())
    }

    /// Requests a read of the table, because it may have changed.
    pub fn request_read(&self) {
        self.reader.request();
    }

    /// Waits until a read has found other rows than before.
    pub async fn changed(&self) {
        self.changed.notified().await;
    }

    /// Keeps the table current, opens lanes that rejected a publish, and closes empty lanes and takes them out of use.
    /// Never returns.
    pub async fn follow(&self) {
        tokio::join!(self.follow_table(), self.settle_loop());
    }

    async fn follow_table(&self) {
        loop {
            let rows = self.read().await;
            if let Ok(rows) = &rows {
                self.open_rejected(rows).await;
            }
            self.reader.wait(rows.map(drop)).await;
        }
    }

    async fn open_rejected(&self, rows: &LaneRows) {
        let refused = std::mem::take(&mut *self.rejected.lock());
        let opening = refused.iter();
        let opening = opening.map(|(queue, lane)| self.open_lane(queue, *lane, rows.row(queue)));
        join_all(opening).await;
    }

    async fn settle_loop(&self) {
        // A random delay, so that the processes do not do this at the same time.
        sleep(LANES_SETTLE_INTERVAL.mul_f64(rand::random())).await;
        loop {
            for (queue, row) in &self.known.load_full().by_queue {
                if row.counts.used > row.counts.open
                    && let Err(error) = self.settle(queue, *row).await
                {
                    record_store_error(&error);
                }
                if !row.numbers.is_settled()
                    && let Err(error) = self.settle_numbers(queue, *row).await
                {
                    record_store_error(&error);
                }
            }
            self.formers.keep(&self.known.load());
            sleep(LANES_SETTLE_INTERVAL).await;
        }
    }

    /// Closes the lanes of a queue that take no new jobs, the last lane first, until a lane is not empty, and takes the
    /// closed ones out of use.
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
        let lanes = self.store.lanes();
        if still < used && lanes.settle(queue, row, still, row.numbers).await? {
            tracing::info!(%queue, lanes = still, "closed empty lanes");
            self.request_read();
        }
        Ok(())
    }
}
