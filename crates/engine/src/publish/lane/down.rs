//! The buckets of servers that failed a publish. Publishes to queues with several lanes avoid them until a probe of the
//! server succeeds.

use std::collections::HashMap;
use std::time::Duration;

use futures_util::future::join_all;
use parking_lot::Mutex;
use tidegate_core::QueueKey;
use tidegate_store::{Store, StoreError};
use tokio::sync::Notify;
use tokio::time::{sleep, timeout};

use crate::metrics::storage_failure::record_store_error;

/// The pause between two probes of a server.
const PROBE_INTERVAL: Duration = Duration::from_millis(500);
/// The time limit of a probe.
const PROBE_LIMIT: Duration = Duration::from_secs(1);

/// The buckets that are down, each with the queue and lane of the failed publish.
#[derive(Debug, Default)]
pub(super) struct DownBuckets {
    lanes: Mutex<HashMap<u16, (QueueKey, u16)>>,
    added: Notify,
}

impl DownBuckets {
    /// Records that a publish to a lane failed: all buckets of its server are down until a probe succeeds.
    pub(super) fn add(&self, store: &Store, queue: &QueueKey, lane: u16, error: &StoreError) {
        let bucket = store.bucket_of(queue.lane(lane));
        if self.contains(bucket) {
            return;
        }
        let beside = store.buckets_beside(bucket);
        tracing::warn!(
            %queue, lane, buckets = beside.len(), %error,
            "failed to publish to a lane; queues with several lanes use lanes on other servers until a probe succeeds"
        );
        let mut lanes = self.lanes.lock();
        for bucket in beside {
            lanes.insert(bucket, (queue.clone(), lane));
        }
        drop(lanes);
        self.added.notify_one();
    }

    /// Probes the servers that are down, with a pause of [`PROBE_INTERVAL`]. Never returns; sends nothing while no
    /// server is down.
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
        let mut probed_lanes: Vec<(QueueKey, u16)> = self.lanes.lock().values().cloned().collect();
        probed_lanes.sort_unstable();
        probed_lanes.dedup();
        let probes = probed_lanes.into_iter().map(async |probed_lanes| {
            let (queue, lane) = &probed_lanes;
            let probing = timeout(PROBE_LIMIT, store.probe_publish(queue.lane(*lane)));
            let no_answer = |_| Err(StoreError::timed_out(PROBE_LIMIT));
            match probing.await.unwrap_or_else(no_answer) {
                Ok(()) => {
                    tracing::info!(%queue, lane, "the server of a lane accepts publishes again");
                    self.lanes
                        .lock()
                        .retain(|_, probed| *probed != probed_lanes);
                }
                // Publishes avoid the server, so their failures no longer report it.
                Err(error) => record_store_error(&error),
            }
        });
        join_all(probes).await;
    }

    pub(super) fn is_empty(&self) -> bool {
        self.lanes.lock().is_empty()
    }

    pub(super) fn contains(&self, bucket: u16) -> bool {
        self.lanes.lock().contains_key(&bucket)
    }
}
