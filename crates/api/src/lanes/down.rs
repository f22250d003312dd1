//! Buckets whose server failed to store jobs, so that publishes to a queue with several lanes go to the others until it would
//! store some.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures_util::future::join_all;
use tidegate_core::QueueKey;
use tidegate_store::{Store, StoreError};
use tokio::sync::Notify;
use tokio::time::{sleep, timeout};

use crate::metrics::storage_failed;

/// Between two probes of a server.
const PROBE_INTERVAL: Duration = Duration::from_millis(500);
/// A server that takes longer to answer is still down.
const PROBE_LIMIT: Duration = Duration::from_secs(1);

/// By bucket, the lane that a publish failed in.
#[derive(Debug, Default)]
pub(super) struct DownBuckets {
    lanes: Mutex<HashMap<u16, (QueueKey, u16)>>,
    added: Notify,
}

impl DownBuckets {
    /// A publish to a lane failed. All buckets of its server count as down until it would store jobs.
    pub(super) fn add(&self, store: &Store, queue: &QueueKey, lane: u16, error: &StoreError) {
        let bucket = store.bucket_of(queue.lane(lane));
        if self.contains(bucket) {
            return;
        }
        let beside = store.buckets_beside(bucket);
        tracing::warn!(
            %queue, lane, buckets = beside.len(), %error,
            "publishing to a lane failed; queues with several lanes use the others until its server takes publishes again"
        );
        let mut lanes = self.lock();
        for bucket in beside {
            lanes.insert(bucket, (queue.clone(), lane));
        }
        drop(lanes);
        self.added.notify_one();
    }

    /// Probes the servers that are down, for ever. Sends nothing while none is.
    pub(super) async fn probe(&self, store: &Store) {
        loop {
            self.added.notified().await;
            while !self.is_empty() {
                sleep(PROBE_INTERVAL).await;
                self.probe_once(store).await;
            }
        }
    }

    async fn probe_once(&self, store: &Store) {
        let mut asked: Vec<(QueueKey, u16)> = self.lock().values().cloned().collect();
        asked.sort_unstable();
        asked.dedup();
        let probes = asked.into_iter().map(async |asked| {
            let (queue, lane) = &asked;
            let probing = timeout(PROBE_LIMIT, store.probe_publish(queue.lane(*lane)));
            let no_answer = |_| Err(StoreError::timed_out(PROBE_LIMIT));
            match probing.await.unwrap_or_else(no_answer) {
                Ok(()) => {
                    tracing::info!(%queue, lane, "the server of a lane takes publishes again");
                    self.lock().retain(|_, probed| *probed != asked);
                }
                // Publishes do not fail any more, and would not show it.
                Err(error) => storage_failed(&error),
            }
        });
        join_all(probes).await;
    }

    pub(super) fn is_empty(&self) -> bool {
        self.lock().is_empty()
    }

    pub(super) fn contains(&self, bucket: u16) -> bool {
        self.lock().contains_key(&bucket)
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<u16, (QueueKey, u16)>> {
        self.lanes.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
