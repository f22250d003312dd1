//! Publishing to a lane of a queue: to one whose server stores jobs now, and where it is not closed.

use std::sync::Arc;

use tidegate_core::{JobId, NewJob, QueueKey};
use tidegate_store::{Published, SMALL_TRANSFER_BYTES_MAX, StoreError, Unavailable};

use super::LaneTable;

impl LaneTable {
    /// The lane for a publish that does not wait its turn: that of the job that it replaces, if that one is open.
    pub(crate) fn lane_for(&self, queue: &QueueKey, replaces: Option<JobId>) -> u16 {
        let open = self.open(queue);
        let of_replaced = replaces.and_then(|id| self.store.lane_in(id.bucket(), queue, open));
        of_replaced.unwrap_or_else(|| self.lane_beside(queue, rand::random_range(0..open), open))
    }

    /// The server that a lane is on, if it is known.
    pub(crate) fn server_of(&self, queue: &QueueKey, lane: u16) -> Option<Arc<str>> {
        let bucket = self.store.bucket_of(queue.lane(lane));
        self.store.server_of(bucket)
    }

    /// Stores jobs in a lane, in another one if the server of that one is down or refuses writes, or in lane 0 if it is closed. A job is
    /// replaced in this lane or not at all. Errors are those of the store; the jobs may be there.
    pub(crate) async fn publish(
        &self,
        queue: &QueueKey,
        lane: u16,
        jobs: &[NewJob],
        replaces: Option<JobId>,
    ) -> Result<Published, StoreError> {
        if replaces.is_some() {
            return self.publish_from(queue, lane, jobs, replaces).await;
        }
        let open = self.open(queue);
        let mut lane = self.lane_beside(queue, lane, open);
        // Servers take writes again meanwhile: without a limit it could go round and round.
        for _ in 1..open {
            match self.publish_from(queue, lane, jobs, None).await {
                Err(error) if is_refused_write(&error) => {
                    let other = self.lane_beside(queue, lane, open);
                    if other == lane {
                        return Err(error);
                    }
                    lane = other;
                }
                published => return published,
            }
        }
        self.publish_from(queue, lane, jobs, None).await
    }

    /// Stores jobs in this lane, or in lane 0 if it is closed.
    async fn publish_from(
        &self,
        queue: &QueueKey,
        lane: u16,
        jobs: &[NewJob],
        replaces: Option<JobId>,
    ) -> Result<Published, StoreError> {
        if let Some(published) = self.publish_in(queue, lane, jobs, replaces).await? {
            return Ok(published);
        }
        self.lock_refused().insert((queue.clone(), lane));
        self.look();
        let published = self.publish_in(queue, 0, jobs, replaces).await?;
        published.ok_or_else(|| StoreError::Corrupt(format!("lane 0 of {queue} is closed")))
    }

    async fn publish_in(
        &self,
        queue: &QueueKey,
        lane: u16,
        jobs: &[NewJob],
        replaces: Option<JobId>,
    ) -> Result<Option<Published>, StoreError> {
        let store = &self.store;
        let publish = store.publish_unless_closed(queue.lane(lane), jobs, replaces);
        if self.open(queue) <= 1 {
            return publish.await;
        }
        let publish = async {
            publish.await.inspect_err(|error| {
                if matches!(error, StoreError::Unavailable { .. }) {
                    self.down.add(store, queue, lane, error);
                }
            })
        };
        let bytes: usize = jobs.iter().map(NewJob::payload_bytes).sum();
        if bytes > SMALL_TRANSFER_BYTES_MAX {
            // It may take long although its server is fast.
            return publish.await;
        }
        let server = || self.server_of(queue, lane);
        self.overdue.watch(publish, server).await
    }

    /// The first of the open lanes, beginning with `from` and going round, on a server that is neither down nor overdue; or
    /// on one that is not down; or `from`.
    fn lane_beside(&self, queue: &QueueKey, from: u16, open: u16) -> u16 {
        if open <= 1 || (self.down.is_empty() && self.overdue.is_empty()) {
            return from;
        }
        let is_up = |lane: &u16| {
            let bucket = self.store.bucket_of(queue.lane(*lane));
            !self.down.contains(bucket)
        };
        let is_overdue = |lane: u16| {
            let server = self.server_of(queue, lane);
            server.is_some_and(|server| self.overdue.contains(&server))
        };
        let round = || (0..open).map(|step| (from + step) % open);
        let prompt = round().find(|lane| is_up(lane) && !is_overdue(*lane));
        prompt.or_else(|| round().find(is_up)).unwrap_or(from)
    }
}

/// Whether a server that works refused to write, so that nothing was stored. One that is not ready has been waited for
/// already, and the others may be no more ready.
const fn is_refused_write(error: &StoreError) -> bool {
    let StoreError::Unavailable { reason, .. } = error else {
        return false;
    };
    matches!(reason, Unavailable::ReadOnly | Unavailable::OutOfMemory)
}
