use std::fmt;
use std::str::FromStr;

use tidegate_core::{JobsByState, Namespace, QueueKey};

use super::list_position::InvalidPosition;
use crate::error::StoreError;
use crate::script::{LazyScript, script};
use crate::store::Store;

static LIST_QUEUES: LazyScript = script!("list_queues");

/// Maximum number of queues and hints that one call reads: it blocks Redis for less than 1 ms.
const READS_PER_CALL: u64 = 50;
/// Maximum number of hints that one call reads to find the oldest ready job of a queue.
const HINTS_PER_QUEUE: u64 = 4;

/// A queue that exists: it was published to, and has not been purged since.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ListedQueue {
    pub queue: QueueKey,
    /// The number of its jobs by state.
    pub stats: JobsByState,
    /// Age of the oldest ready job, in ms since it became ready; the maximum over all lanes. `None` if no job is ready,
    /// or if the first 4 hints of the list are stale or expired.
    pub oldest_ready_ms: Option<u64>,
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
    /// A page of the queues of a bucket, from the begin or from [`QueuePage::next`] on. A queue that exists during the
    /// whole list is in it, perhaps twice if other queues are added or forgotten meanwhile.
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
}
