use std::collections::HashMap;
use std::collections::hash_map::Entry;

use futures_util::{StreamExt, TryStreamExt, stream};
use tidegate_core::QueueKey;

use super::Stats;
use crate::script::{LazyScript, script};
use crate::{Store, StoreError};

static LIST_QUEUES: LazyScript = script!("list_queues");

/// How many queues a call may look at: it holds Redis for about 1 ms at most.
const QUEUES_PER_CALL: u64 = 50;
/// How many hints a call may look at to find the oldest ready job of a queue.
const HINTS_PER_QUEUE: u64 = 4;
/// Buckets that are asked at the same time. The calls share one connection.
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

    /// The queues of the whole deployment, in no order, each with what it has in all its lanes. Each bucket
    /// is looked at on its own, so the counts are not those of one moment.
    ///
    /// # Errors
    /// Redis is unavailable.
    pub async fn all_queues(&self) -> Result<Vec<ListedQueue>, StoreError> {
        let buckets = self.all_buckets().map(|bucket| self.queues_of(bucket));
        let calls = stream::iter(buckets).buffer_unordered(BUCKETS_AT_ONCE);
        Ok(by_queue(calls.try_concat().await?))
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
