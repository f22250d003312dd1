//! The sizes of queues, read bucket by bucket in short calls.

use std::collections::hash_map::Entry;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures_util::future::join_all;
use futures_util::{StreamExt, stream};
use tidegate_core::QueueKey;
use tokio::time::timeout;

use crate::error::StoreError;
use crate::store::Store;
use crate::verbs::{ListedQueue, QueuePosition};

/// Buckets of a server that are read at the same time, over one connection.
const BUCKETS_AT_ONCE: usize = 16;
/// Buckets of a server that a slow read has in flight.
const SLOW_BUCKETS_AT_ONCE: usize = 2;

/// The queues of a bucket.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct BucketSizes {
    /// The queues, in no order, each once.
    pub queues: Vec<ListedQueue>,
    /// Time for which the earliest timer is overdue, in ms: the timer of a delayed job, of a lease, or of the loading
    /// of a far slot.
    pub overdue_ms: u64,
}

/// The sizes that were read of some buckets.
#[derive(Debug, Default)]
pub struct ReadSizes {
    /// The buckets; `None` for a bucket that could not be read.
    pub buckets: BTreeMap<u16, Option<BucketSizes>>,
    /// The error of one of these buckets; `None` if all of them only exceeded the time limit.
    pub error: Option<StoreError>,
}

/// The sizes of the queues of several buckets.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct QueueSizes {
    /// The queues, in no order, each once. The figures of a queue are sums over its lanes in these buckets.
    pub queues: Vec<ListedQueue>,
    /// Time for which the earliest timer of these buckets is overdue, in ms.
    pub overdue_ms: u64,
    /// Buckets that could not be read.
    pub missing_buckets: usize,
}

impl QueueSizes {
    /// The sum of some buckets. `None` stands for a bucket that could not be read.
    pub fn of<'a>(buckets: impl IntoIterator<Item = Option<&'a BucketSizes>>) -> Self {
        let (mut queues, mut sizes) = (HashMap::<&QueueKey, ListedQueue>::new(), Self::default());
        for bucket in buckets {
            let Some(bucket) = bucket else {
                sizes.missing_buckets += 1;
                continue;
            };
            sizes.overdue_ms = sizes.overdue_ms.max(bucket.overdue_ms);
            for lane in &bucket.queues {
                match queues.entry(&lane.queue) {
                    Entry::Vacant(first) => drop(first.insert(lane.clone())),
                    Entry::Occupied(mut queue) => queue.get_mut().add(lane),
                }
            }
        }
        sizes.queues = queues.into_values().collect();
        sizes
    }
}

impl ListedQueue {
    /// Adds the figures of another lane or queue.
    pub fn add(&mut self, other: &Self) {
        self.stats += other.stats;
        self.oldest_ready_ms = self.oldest_ready_ms.max(other.oldest_ready_ms);
    }
}

impl Store {
    /// Reads the queues of these buckets, for up to `limit`. Buckets are read separately, so the counts are not a
    /// snapshot. A server that fails or is slow does not delay the others.
    pub async fn read_sizes(
        &self,
        buckets: impl IntoIterator<Item = u16>,
        limit: Duration,
    ) -> ReadSizes {
        self.read_sizes_at_once(buckets, limit, BUCKETS_AT_ONCE)
            .await
    }

    /// The same with few calls in flight, behind which the calls of others do not wait. It takes longer.
    pub async fn read_sizes_slowly(&self, limit: Duration) -> ReadSizes {
        let buckets = self.all_buckets();
        self.read_sizes_at_once(buckets, limit, SLOW_BUCKETS_AT_ONCE)
            .await
    }

    async fn read_sizes_at_once(
        &self,
        buckets: impl IntoIterator<Item = u16>,
        limit: Duration,
        at_once: usize,
    ) -> ReadSizes {
        let wanted: BTreeSet<u16> = buckets.into_iter().collect();
        let read = Mutex::new(ReadSizes {
            buckets: wanted.iter().map(|bucket| (*bucket, None)).collect(),
            error: None,
        });
        let reading = self.buckets_by_server().into_iter().map(|server| {
            let buckets = server.buckets.iter().copied();
            let here: Vec<u16> = buckets.filter(|it| wanted.contains(it)).collect();
            self.read_in_turn(here, &read, at_once)
        });
        // After the time limit the buckets that were read are returned.
        let _ = timeout(limit, join_all(reading)).await;
        std::mem::take(&mut *lock(&read))
    }

    /// Adds these buckets to `read`, until one fails.
    async fn read_in_turn(&self, buckets: Vec<u16>, read: &Mutex<ReadSizes>, at_once: usize) {
        let calls = buckets
            .into_iter()
            .map(async |bucket| (bucket, self.sizes_of_bucket(bucket).await));
        let mut calls = stream::iter(calls).buffer_unordered(at_once);
        while let Some((bucket, sizes)) = calls.next().await {
            match sizes {
                Ok(sizes) => drop(lock(read).buckets.insert(bucket, Some(sizes))),
                Err(error) => return lock(read).error = Some(error),
            }
        }
    }

    async fn sizes_of_bucket(&self, bucket: u16) -> Result<BucketSizes, StoreError> {
        let (mut queues, mut overdue_ms) = (HashMap::new(), 0);
        let mut from = QueuePosition::default();
        loop {
            let page = self.list_queues(bucket, from).await?;
            let listed = page.queues.into_iter();
            // A queue may be listed twice.
            queues.extend(listed.map(|listed| (listed.queue.clone(), listed)));
            overdue_ms = page.overdue_ms.max(overdue_ms);
            match page.next {
                Some(next) => from = next,
                None => {
                    let queues = queues.into_values().collect();
                    return Ok(BucketSizes { queues, overdue_ms });
                }
            }
        }
    }
}

fn lock(read: &Mutex<ReadSizes>) -> MutexGuard<'_, ReadSizes> {
    read.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use tidegate_core::JobsByState;

    use super::*;

    fn bucket(queues: &[(&str, u64, Option<u64>)], overdue_ms: u64) -> BucketSizes {
        let queues = queues.iter().map(|(name, ready, oldest_ready_ms)| {
            let stats = JobsByState {
                ready: *ready,
                ..JobsByState::default()
            };
            ListedQueue {
                queue: QueueKey::try_from(*name).unwrap(),
                stats,
                oldest_ready_ms: *oldest_ready_ms,
            }
        });
        BucketSizes {
            queues: queues.collect(),
            overdue_ms,
        }
    }

    #[test]
    fn lanes_are_added_up_and_missing_buckets_are_counted() {
        let one = bucket(&[("n/a", 1, Some(5)), ("n/b", 2, None)], 30);
        let other = bucket(&[("n/a", 3, Some(9))], 20);
        let mut sizes = QueueSizes::of([Some(&one), None, Some(&other)]);
        sizes
            .queues
            .sort_by(|one, other| one.queue.cmp(&other.queue));
        let expected = bucket(&[("n/a", 4, Some(9)), ("n/b", 2, None)], 30);
        assert_eq!(sizes.queues, expected.queues);
        assert_eq!((sizes.overdue_ms, sizes.missing_buckets), (30, 1));
    }
}
