use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures_util::future::join_all;
use futures_util::{StreamExt, stream};
use tidegate_core::QueueKey;

use super::Stats;
use crate::script::{LazyScript, script};
use crate::{Store, StoreError};
use tokio::time::timeout;

static LIST_QUEUES: LazyScript = script!("list_queues");

/// How many queues a call may look at: it holds Redis for about 1 ms at most.
const QUEUES_PER_CALL: u64 = 50;
/// How many hints a call may look at to find the oldest ready job of a queue.
const HINTS_PER_QUEUE: u64 = 4;
/// Buckets of a server that are asked at the same time. The calls share one connection.
const BUCKETS_AT_ONCE: usize = 16;

/// A queue that was published to and has not been purged since.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ListedQueue {
    /// The queue.
    pub queue: QueueKey,
    /// Its jobs by state.
    pub stats: Stats,
    /// For how long the job that is consumed next has been ready, in ms; of several lanes, where that is
    /// longest. None where nothing is ready, or where several stale or expired jobs hide it.
    pub oldest_ready_ms: Option<u64>,
}

/// The queues of a deployment.
#[derive(Debug, Clone, Default)]
pub struct AllQueues {
    /// The queues, in no order, each with what it has in all its lanes that could be read.
    pub queues: Vec<ListedQueue>,
    /// Buckets that could not be read.
    pub missing_buckets: usize,
    /// Why one of them could not, unless it was only a matter of time.
    pub error: Option<StoreError>,
}

/// What was read up to now.
#[derive(Default)]
struct Read {
    queues: Vec<ListedQueue>,
    buckets: usize,
    error: Option<StoreError>,
}

/// Some queues of a bucket.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct QueuePage {
    /// The queues, in the order in which they were first published to.
    pub queues: Vec<ListedQueue>,
    /// Where to go on; `None` if these were the last.
    pub next: Option<u64>,
}

impl Store {
    /// The queues of a bucket, a bounded number of them: from the beginning with `after` 0, else from
    /// where the page before ended.
    ///
    /// # Errors
    /// Redis is unavailable.
    pub async fn list_queues(&self, bucket: u16, after: u64) -> Result<QueuePage, StoreError> {
        let keys = self.keys(bucket);
        let call = self
            .call_on_bucket(&LIST_QUEUES, keys.queues(), keys)
            .arg(after)
            .arg(QUEUES_PER_CALL)
            .arg(HINTS_PER_QUEUE);
        let mut reply = call.send().await?.ok()?;
        let next = Some(reply.count()?).filter(|next| *next > 0);
        let mut queues = Vec::new();
        while reply.has_more() {
            let name = reply.bytes()?;
            let name = std::str::from_utf8(&name).ok();
            let queue = name.and_then(|name| QueueKey::try_from(name).ok());
            queues.push(ListedQueue {
                queue: queue.ok_or_else(|| StoreError::corrupt("the name of a queue"))?,
                stats: Stats::read(&mut reply)?,
                oldest_ready_ms: reply.optional()?,
            });
        }
        Ok(QueuePage { queues, next })
    }

    /// The queues of the whole deployment, as far as they can be read within `limit`. Each bucket is looked at on its own,
    /// so the counts are not those of one moment. A server that fails or is slow takes no time from the others.
    pub async fn all_queues(&self, limit: Duration) -> AllQueues {
        let read = Mutex::new(Read::default());
        let servers = self.buckets_by_server().into_iter();
        let reading = servers.map(|server| self.read_queues(server.buckets, &read));
        // What was read counts, whether the rest came in time or not.
        let _ = timeout(limit, join_all(reading)).await;
        let Read {
            queues,
            buckets,
            error,
        } = std::mem::take(&mut *lock(&read));
        AllQueues {
            queues: by_queue(queues),
            missing_buckets: (self.buckets() as usize).saturating_sub(buckets),
            error,
        }
    }

    /// Reads these buckets until one of them fails.
    async fn read_queues(&self, buckets: Arc<[u16]>, read: &Mutex<Read>) {
        let calls = buckets.iter().copied();
        let calls = calls.map(|bucket| self.queues_of(bucket));
        let mut calls = stream::iter(calls).buffer_unordered(BUCKETS_AT_ONCE);
        while let Some(queues) = calls.next().await {
            let mut read = lock(read);
            match queues {
                Ok(queues) => {
                    read.queues.extend(queues);
                    read.buckets += 1;
                }
                Err(error) => {
                    read.error = Some(error);
                    return;
                }
            }
        }
    }

    async fn queues_of(&self, bucket: u16) -> Result<Vec<ListedQueue>, StoreError> {
        let mut queues = Vec::new();
        let mut after = Some(0);
        while let Some(last) = after {
            let page = self.list_queues(bucket, last).await?;
            queues.extend(page.queues);
            after = page.next;
        }
        Ok(queues)
    }
}

fn lock(read: &Mutex<Read>) -> MutexGuard<'_, Read> {
    read.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Puts together what is told of the lanes of a queue.
fn by_queue(listed: Vec<ListedQueue>) -> Vec<ListedQueue> {
    let mut queues: HashMap<QueueKey, ListedQueue> = HashMap::with_capacity(listed.len());
    for lane in listed {
        match queues.entry(lane.queue.clone()) {
            Entry::Vacant(first) => drop(first.insert(lane)),
            Entry::Occupied(mut queue) => {
                let queue = queue.get_mut();
                queue.stats += lane.stats;
                queue.oldest_ready_ms = queue.oldest_ready_ms.max(lane.oldest_ready_ms);
            }
        }
    }
    queues.into_values().collect()
}
