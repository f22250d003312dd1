//! The lane table of a Redis deployment, as this process has read it.
//!
//! The table in Redis is read once a second, and at once when an event suggests that it has changed. A stale table
//! loses no job: a lane that is not in use is closed in its bucket, where a publish is rejected. A rejected publish
//! goes to lane 0, which is never closed (`docs/decisions/0022-lanes.md`).

mod set;
mod share;

use std::collections::HashSet;
use std::sync::Arc;

use arc_swap::ArcSwap;
use futures_util::future::join_all;
use parking_lot::Mutex;
use tidegate_core::{LANES_SETTLE_INTERVAL, LaneCounts, LaneRow, QueueKey, placement, share_of};
use tidegate_store::{LaneRows, Store, StoreError};
use tokio::sync::Notify;
use tokio::time::sleep;

use crate::metrics::storage_failure::record_store_error;
use crate::queue::table_reader::TableReader;
pub(crate) use set::LaneSet;
pub(crate) use share::running_share_of;

/// The lanes of the queues of one Redis deployment.
#[derive(Debug)]
pub struct LaneTable {
    store: Store,
    known: ArcSwap<LaneRows>,
    /// Lanes that rejected a publish as closed, although the table had them open.
    rejected: Mutex<HashSet<(QueueKey, u16)>>,
    reader: TableReader,
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

    /// Puts lanes in use again that are missing in the table after a failover that lost its last changes, because they
    /// may hold jobs.
    async fn restore(&self, known: &LaneRows, rows: &LaneRows) -> Result<(), StoreError> {
        for (queue, was) in &known.by_queue {
            let used = was.counts.used;
            if used > rows.row(queue).counts.used {
                tracing::warn!(%queue, used, "restored lanes after Redis lost the last change of the lane table; set the number of lanes of the queue again");
                let lanes = self.store.lanes();
                lanes.raise(queue, used, known.last_epoch).await?;
            }
        }
        Ok(())
    }

    /// Sets the number of lanes that take new jobs of a queue: here at once, in other processes within a second. A lane
    /// that cannot be opened now is opened when a publish finds it closed.
    ///
    /// # Errors
    /// The store failed.
    pub async fn set(&self, queue: &QueueKey, open: u16) -> Result<LaneCounts, StoreError> {
        let row = self.store.lanes().set(queue, open).await?;
        self.read().await?;
        let opening = (1..open).map(|lane| self.open_lane(queue, lane, row));
        join_all(opening).await;
        Ok(row.counts)
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
            row = self.store.lanes().raise(queue, 1, closed_with).await?;
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
            }
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
        if still < used && self.store.lanes().settle(queue, row, still).await? {
            tracing::info!(%queue, lanes = still, "closed empty lanes");
            self.request_read();
        }
        Ok(())
    }
}
