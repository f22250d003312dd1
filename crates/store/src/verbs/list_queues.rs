use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::fmt;
use std::str::FromStr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures_util::future::join_all;
use futures_util::{StreamExt, stream};
use tidegate_core::{JobsByState, Namespace, QueueKey};

use super::list_position::InvalidPosition;
use crate::error::StoreError;
use crate::script::{LazyScript, script};
use crate::store::Store;
use tokio::time::timeout;

static LIST_QUEUES: LazyScript = script!("list_queues");

/// Maximum number of queues and hints that one call reads: it blocks Redis for less than 1 ms.
const READS_PER_CALL: u64 = 50;
/// Maximum number of hints that one call reads to find the oldest ready job of a queue.
const HINTS_PER_QUEUE: u64 = 4;
/// Buckets of a server that are read at the same time, over one connection.
const BUCKETS_AT_ONCE: usize = 16;

/// A queue that exists: it was published to, and has not been purged since.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ListedQueue {
    /// The queue.
    pub queue: QueueKey,
    /// The number of its jobs by state.
    pub stats: JobsByState,
    /// Age of the oldest ready job, in ms since it became ready; the maximum over all lanes. `None` if no job is ready,
    /// or if the first 4 hints of the list are stale or expired.
    pub oldest_ready_ms: Option<u64>,
}

/// The queues of a deployment.
#[derive(Debug, Clone, Default)]
pub struct AllQueues {
    /// The queues, in no order. Their figures are sums over all lanes that could be read.
    pub queues: Vec<ListedQueue>,
    /// Time for which the earliest timer is overdue, in ms: the timer of a delayed job, of a lease, or of the loading
    /// of a far slot.
    pub overdue_ms: u64,
    /// Buckets that could not be read.
    pub missing_buckets: usize,
    /// The error of one of these buckets; `None` if all of them only exceeded the time limit.
    pub error: Option<StoreError>,
}

/// Some queues of a bucket.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct QueuePage {
    /// The queues, in no order.
    pub queues: Vec<ListedQueue>,
    /// Time for which the earliest timer of these queues is overdue, in ms; 0 = none is. The first page includes the
    /// loading of far slots.
    pub overdue_ms: u64,
    /// Where the next page begins; `None` if this is the last page.
    pub next: Option<QueuePosition>,
}

/// Where a list of the queues of a bucket continues: a cursor of `HSCAN`, and how many of its entries were read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct QueuePosition {
    at: u64,
    skipped: u32,
}

impl fmt::Display for QueuePosition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.at, self.skipped)
    }
}

impl FromStr for QueuePosition {
    type Err = InvalidPosition;

    fn from_str(text: &str) -> Result<Self, InvalidPosition> {
        let (at, skipped) = text.split_once(':').ok_or(InvalidPosition)?;
        Ok(Self {
            at: at.parse().map_err(|_| InvalidPosition)?,
            skipped: skipped.parse().map_err(|_| InvalidPosition)?,
        })
    }
}

impl Store {
    /// A page of the queues of a bucket, from the begin or from [`QueuePage::next`] on. A queue that exists during the whole
    /// list is in it, perhaps twice if other queues are added or forgotten meanwhile.
    ///
    /// # Errors
    /// Redis is unavailable.
    pub async fn list_queues(
        &self,
        bucket: u16,
        from: QueuePosition,
    ) -> Result<QueuePage, StoreError> {
        self.list_some(bucket, None, from, READS_PER_CALL).await
    }

    /// Up to `limit` queues of a namespace in a bucket, from a position on. Other namespaces cost little.
    ///
    /// # Errors
    /// Redis is unavailable.
    pub async fn list_queues_of(
        &self,
        namespace: &Namespace,
        bucket: u16,
        from: QueuePosition,
        limit: usize,
    ) -> Result<QueuePage, StoreError> {
        let mut page = QueuePage {
            queues: Vec::new(),
            overdue_ms: 0,
            next: Some(from),
        };
        while let Some(from) = page.next
            && page.queues.len() < limit
        {
            let reads = READS_PER_CALL.min((limit - page.queues.len()) as u64);
            let more = self.list_some(bucket, Some(namespace), from, reads).await?;
            page.queues.extend(more.queues);
            page.overdue_ms = page.overdue_ms.max(more.overdue_ms);
            page.next = more.next;
        }
        Ok(page)
    }

    async fn list_some(
        &self,
        bucket: u16,
        namespace: Option<&Namespace>,
        from: QueuePosition,
        reads: u64,
    ) -> Result<QueuePage, StoreError> {
        let keys = self.keys(bucket);
        let call = self
            .call_on_bucket(&LIST_QUEUES, keys.queues(), keys)
            .arg(from.to_string())
            .arg(reads)
            .arg(HINTS_PER_QUEUE)
            .arg(namespace.map_or("", Namespace::as_str));
        let mut reply = call.send().await?.ok()?;
        let next = String::from_utf8_lossy(&reply.bytes()?).parse();
        let next: QueuePosition = next.map_err(|_| StoreError::corrupt("invalid cursor"))?;
        // The list ends where it begins.
        let next = Some(next).filter(|next| *next != QueuePosition::default());
        let overdue_ms = reply.count()?;
        let mut queues = Vec::new();
        while reply.has_more() {
            let name = reply.bytes()?;
            let name = std::str::from_utf8(&name).ok();
            let queue = name.and_then(|name| QueueKey::try_from(name).ok());
            queues.push(ListedQueue {
                queue: queue.ok_or_else(|| StoreError::corrupt("invalid name of a queue"))?,
                stats: reply.jobs_by_state()?,
                oldest_ready_ms: reply.optional()?,
            });
        }
        Ok(QueuePage {
            queues,
            overdue_ms,
            next,
        })
    }

    /// The queues of the whole deployment that can be read within `limit`. Buckets are read separately, so the counts
    /// are not a snapshot. A server that fails or is slow does not delay the others.
    pub async fn all_queues(&self, limit: Duration) -> AllQueues {
        let read = Mutex::new(AllQueues {
            missing_buckets: self.buckets() as usize,
            ..AllQueues::default()
        });
        let servers = self.buckets_by_server().into_iter();
        let reading = servers.map(|server| self.read_queues(server.buckets, &read));
        // After the time limit the queues that were read are returned.
        let _ = timeout(limit, join_all(reading)).await;
        let mut read = std::mem::take(&mut *lock(&read));
        read.queues = by_queue(read.queues);
        read
    }

    /// Adds the queues of these buckets to `read`, until a bucket fails.
    async fn read_queues(&self, buckets: Arc<[u16]>, read: &Mutex<AllQueues>) {
        let calls = buckets.iter().copied();
        let calls = calls.map(|bucket| self.queues_of(bucket));
        let mut calls = stream::iter(calls).buffer_unordered(BUCKETS_AT_ONCE);
        while let Some(queues) = calls.next().await {
            let mut read = lock(read);
            match queues {
                Ok((queues, overdue_ms)) => {
                    read.queues.extend(queues);
                    read.overdue_ms = read.overdue_ms.max(overdue_ms);
                    read.missing_buckets = read.missing_buckets.saturating_sub(1);
                }
                Err(error) => {
                    read.error = Some(error);
                    return;
                }
            }
        }
    }

    /// The queues of a bucket, and for how long its earliest timer is overdue, in ms.
    async fn queues_of(&self, bucket: u16) -> Result<(Vec<ListedQueue>, u64), StoreError> {
        let (mut queues, mut overdue_ms) = (HashMap::new(), 0);
        let mut from = QueuePosition::default();
        loop {
            let page = self.list_queues(bucket, from).await?;
            let listed = page.queues.into_iter();
            queues.extend(listed.map(|listed| (listed.queue.clone(), listed)));
            overdue_ms = page.overdue_ms.max(overdue_ms);
            match page.next {
                Some(next) => from = next,
                None => return Ok((queues.into_values().collect(), overdue_ms)),
            }
        }
    }
}

fn lock(read: &Mutex<AllQueues>) -> MutexGuard<'_, AllQueues> {
    read.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Merges the lanes of each queue.
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
