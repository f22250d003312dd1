//! Buckets whose server failed to store jobs, so that publishes to a queue with several lanes go to the others.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures_util::future::join_all;
use tidegate_core::QueueKey;
use tidegate_store::Store;
use tokio::sync::Notify;
use tokio::time::{sleep, timeout};

/// Between two looks whether a server answers again.
const PROBE_INTERVAL: Duration = Duration::from_millis(500);
/// A server that takes longer to answer is still down.
const PROBE_LIMIT: Duration = Duration::from_secs(1);

/// By bucket, a lane that is in it and can be asked for.
#[derive(Debug, Default)]
pub(super) struct DownBuckets {
    lanes: Mutex<HashMap<u16, (QueueKey, u16)>>,
    added: Notify,
}

impl DownBuckets {
    /// A publish to a lane failed. All buckets of its server count as down until it answers.
    pub(super) fn add(&self, store: &Store, queue: &QueueKey, lane: u16) {
        let bucket = store.bucket_of(queue.lane(lane));
        if self.contains(bucket) {
            return;
        }
        let beside = store.buckets_beside(bucket);
        tracing::warn!(
            %queue, lane, buckets = beside.len(),
            "publishing to a lane failed; queues with several lanes use the others until its server answers"
        );
        let mut lanes = self.lock();
        for bucket in beside {
            lanes.insert(bucket, (queue.clone(), lane));
        }
        drop(lanes);
        self.added.notify_one();
    }

    /// The first of so many lanes that is not known to be down, beginning with `from` and going round; `from` if all are.
    pub(super) fn lane_beside(&self, store: &Store, queue: &QueueKey, from: u16, open: u16) -> u16 {
        let down = self.lock();
        if down.is_empty() || open <= 1 {
            return from;
        }
        let mut round = (0..open).map(|step| (from + step) % open);
        let is_up = |lane: &u16| !down.contains_key(&store.bucket_of(queue.lane(*lane)));
        round.find(is_up).unwrap_or(from)
    }

    /// Asks servers that are down whether they answer again, for ever. Sends nothing while none is.
    pub(super) async fn probe(&self, store: &Store) {
        loop {
            self.added.notified().await;
            while !self.lock().is_empty() {
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
            let answered = timeout(PROBE_LIMIT, store.stats(queue.lane(*lane))).await;
            if matches!(answered, Ok(Ok(_))) {
                tracing::info!(%queue, lane, "the server of a lane answers again");
                self.lock().retain(|_, probed| *probed != asked);
            }
        });
        join_all(probes).await;
    }

    fn contains(&self, bucket: u16) -> bool {
        self.lock().contains_key(&bucket)
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<u16, (QueueKey, u16)>> {
        self.lanes.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
