//! Publishing to a lane of a queue, or to another lane if that lane is closed or its server cannot store jobs.

mod down;
mod overdue;
mod partial;

use std::sync::Arc;

use tidegate_core::{JobId, NewJob, QueueKey};
use tidegate_store::{PublishReply, SMALL_TRANSFER_BYTES_MAX, Store, StoreError, Unavailable};

use crate::queue::lanes::LaneTable;
use down::DownBuckets;
use overdue::OverdueServers;

/// Publishes to the lanes of queues, and knows which servers have failed or are slow.
#[derive(Debug)]
pub(crate) struct LanePublisher {
    store: Store,
    lanes: Arc<LaneTable>,
    /// Buckets in which publishes fail.
    down: DownBuckets,
    /// Servers on which publishes take long.
    overdue: OverdueServers,
}

/// Jobs that are stored together.
#[derive(Debug, Clone, Copy)]
pub(crate) struct JobsOfQueue<'a> {
    pub(crate) queue: &'a QueueKey,
    pub(crate) jobs: &'a [NewJob],
    /// The job that they replace, if it is in the lane that stores them. Only its lane and lane 0 are tried.
    pub(crate) replaces: Option<JobId>,
    /// How many jobs the queue may have. No lane gets more than its share: the first open lane with room gets the jobs.
    pub(crate) max_jobs: Option<u64>,
}

impl LanePublisher {
    pub(crate) fn new(store: Store, lanes: Arc<LaneTable>) -> Self {
        Self {
            store,
            lanes,
            down: DownBuckets::default(),
            overdue: OverdueServers::default(),
        }
    }

    /// Probes the servers that are down. Never returns.
    pub(crate) async fn probe(&self) {
        self.down.probe(&self.store).await;
    }

    /// The lane for a publish outside of batches: the lane of the job that it replaces, if it is open, else a random
    /// one, preferably on a server that is neither down nor overdue.
    pub(crate) fn lane_for(&self, queue: &QueueKey, replaces: Option<JobId>) -> u16 {
        let open = self.lanes.open(queue);
        let of_replaced = replaces.and_then(|id| self.store.lane_in(id.bucket(), queue, open));
        of_replaced.unwrap_or_else(|| self.usable_lane(queue, rand::random_range(0..open), open))
    }

    /// Stores jobs in a lane; in another one if its server is down, overdue or refuses writes; in lane 0 if the lane is
    /// closed. The outcome is never [`PublishReply::LaneClosed`].
    ///
    /// # Errors
    /// The store failed. The jobs may be stored.
    pub(crate) async fn publish(
        &self,
        lane: u16,
        jobs: JobsOfQueue<'_>,
    ) -> Result<PublishReply, StoreError> {
        if jobs.replaces.is_some() {
            return self.publish_from(lane, jobs).await;
        }
        let first = self.publish_where_up(lane, jobs).await?;
        let PublishReply::QueueFull { mut room } = first else {
            return Ok(first);
        };
        // Only a queue with several lanes has others.
        let open = self.lanes.open(jobs.queue);
        for other in (1..open).map(|step| (lane % open + step) % open) {
            match self.publish_from(other, jobs).await {
                Ok(PublishReply::QueueFull { room: here }) => room = room.max(here),
                // The jobs were not stored before, so a refusal by this server is no reason to fail.
                Err(error) if is_refused_write(&error) => {}
                published => return published,
            }
        }
        Ok(PublishReply::QueueFull { room })
    }

    /// Stores jobs in a lane; in another one if its server is down, overdue or refuses writes.
    async fn publish_where_up(
        &self,
        lane: u16,
        jobs: JobsOfQueue<'_>,
    ) -> Result<PublishReply, StoreError> {
        let queue = jobs.queue;
        let open = self.lanes.open(queue);
        let mut lane = self.usable_lane(queue, lane, open);
        // Bounded, since servers may accept and refuse writes in turn.
        for _ in 1..open {
            match self.publish_from(lane, jobs).await {
                Err(error) if is_refused_write(&error) => {
                    let other = self.usable_lane(queue, lane, open);
                    if other == lane {
                        return Err(error);
                    }
                    lane = other;
                }
                published => return published,
            }
        }
        self.publish_from(lane, jobs).await
    }

    /// Stores jobs in a lane, or in lane 0 if the lane is closed.
    async fn publish_from(
        &self,
        lane: u16,
        jobs: JobsOfQueue<'_>,
    ) -> Result<PublishReply, StoreError> {
        let queue = jobs.queue;
        match self.publish_in(lane, jobs).await? {
            PublishReply::LaneClosed => self.lanes.refused(queue, lane),
            outcome => return Ok(outcome),
        }
        match self.publish_in(0, jobs).await? {
            PublishReply::LaneClosed => {
                Err(StoreError::Corrupt(format!("lane 0 of {queue} is closed")))
            }
            outcome => Ok(outcome),
        }
    }

    async fn publish_in(
        &self,
        lane: u16,
        jobs: JobsOfQueue<'_>,
    ) -> Result<PublishReply, StoreError> {
        let JobsOfQueue {
            queue,
            jobs,
            replaces,
            max_jobs,
        } = jobs;
        let store = &self.store;
        let share = self.lanes.share_of(queue, lane, max_jobs);
        let publish = store.try_publish(queue.lane(lane), jobs, replaces, share);
        if self.lanes.open(queue) <= 1 {
            return publish.await;
        }
        let publish = async {
            publish.await.inspect_err(|error| {
                // A server with too many uploads is not down.
                let is_down = matches!(error, StoreError::Unavailable { .. });
                if is_down && !error.is_upload_limit() {
                    self.down.add(store, queue, lane, error);
                }
            })
        };
        let bytes: usize = jobs.iter().map(NewJob::payload_bytes).sum();
        if bytes > SMALL_TRANSFER_BYTES_MAX {
            // A large payload takes long on a fast server, too.
            return publish.await;
        }
        let server = || self.lanes.server_of(queue, lane);
        self.overdue.watch(publish, server).await
    }

    /// The first open lane, round-robin from `from`, whose server is neither down nor overdue; else the first whose
    /// server is not down; else `from`.
    fn usable_lane(&self, queue: &QueueKey, from: u16, open: u16) -> u16 {
        if open <= 1 || (self.down.is_empty() && self.overdue.is_empty()) {
            return from;
        }
        let is_up = |lane: &u16| {
            let bucket = self.store.bucket_of(queue.lane(*lane));
            !self.down.contains(bucket)
        };
        let is_overdue = |lane: u16| {
            let server = self.lanes.server_of(queue, lane);
            server.is_some_and(|server| self.overdue.contains(&server))
        };
        let round = || (0..open).map(|step| (from + step) % open);
        let prompt = round().find(|lane| is_up(lane) && !is_overdue(*lane));
        prompt.or_else(|| round().find(is_up)).unwrap_or(from)
    }
}

/// Whether a running server refused to write, so that nothing was stored and another lane can be tried. A server that
/// is not ready does not count: the store has waited for it already, and the others may not be ready either.
const fn is_refused_write(error: &StoreError) -> bool {
    let StoreError::Unavailable { reason, .. } = error else {
        return false;
    };
    reason.refuses_writes() || matches!(reason, Unavailable::OutOfMemory)
}
