//! The queues of a namespace, page by page.

use std::fmt;
use std::str::FromStr;

use futures_util::future::try_join_all;
use tidegate_core::{JobsByState, Namespace, Policy, QueueKey, QueueName};
use tidegate_store::{InvalidPosition, ListedQueue, QueuePosition, StoreError};

use super::job_list::read_number;
use crate::error::EngineError;
use crate::pool::Pool;

/// Buckets, and queues with several lanes, that are read at the same time.
const READS_AT_ONCE: usize = 8;
/// How often a page reads that many buckets: a page of a namespace with few queues may be empty, and not be the last
/// one.
const WAVES_PER_PAGE: usize = 128;

/// Where a list of queues continues.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct QueueCursor {
    /// 0 = the deployment of the pool, 1 = the deployment of its target.
    deployment: usize,
    bucket: u16,
    position: QueuePosition,
}

impl fmt::Display for QueueCursor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}.{}", self.deployment, self.bucket, self.position)
    }
}

impl FromStr for QueueCursor {
    type Err = InvalidPosition;

    fn from_str(text: &str) -> Result<Self, InvalidPosition> {
        let mut parts = text.splitn(3, '.');
        Ok(Self {
            deployment: read_number(parts.next(), 1)? as usize,
            bucket: read_number(parts.next(), u64::from(u16::MAX))? as u16,
            position: parts.next().ok_or(InvalidPosition)?.parse()?,
        })
    }
}

/// A page of a list of queues.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct QueueListing {
    /// The queues by name, with their numbers of jobs; perhaps none.
    pub queues: Vec<(QueueName, JobsByState)>,
    /// Where the next page begins; `None` if this is the last one.
    pub next: Option<QueueCursor>,
}

/// How a queue was deleted, or why not.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DeleteQueueOutcome {
    /// It has no job and no policy any more.
    Deleted,
    /// It has jobs: nothing changed.
    NotEmpty,
}

/// A queue in a bucket of a deployment.
type FoundQueue<'a> = (&'a Pool, u16, ListedQueue);

impl Pool {
    /// A page with up to `limit` queues of a namespace, of which one without jobs is forgotten within two minutes: one
    /// bucket after the other. It costs as much as the namespace has queues, however many others have. A queue that
    /// exists during the whole list is in it, perhaps twice.
    ///
    /// # Errors
    /// A bucket could not be read: a list without it would be mistaken for the whole.
    pub async fn list_queues(
        &self,
        namespace: &Namespace,
        from: QueueCursor,
        limit: usize,
    ) -> Result<QueueListing, EngineError> {
        let (found, next) = self.find_queues(namespace, from, limit).await?;
        let (mut found, mut queues) = (found.into_iter(), Vec::new());
        while found.len() > 0 {
            let some = found.by_ref().take(READS_AT_ONCE);
            let whole = try_join_all(some.map(|found| self.whole_queue(found)));
            queues.extend(whole.await?.into_iter().flatten());
        }
        queues.sort_by(|(one, _), (other, _)| one.cmp(other));
        Ok(QueueListing { queues, next })
    }

    async fn find_queues(
        &self,
        namespace: &Namespace,
        from: QueueCursor,
        limit: usize,
    ) -> Result<(Vec<FoundQueue<'_>>, Option<QueueCursor>), StoreError> {
        let mut found = Vec::new();
        let mut cursors = self.buckets_from(from);
        for _ in 0..WAVES_PER_PAGE {
            let wave: Vec<_> = cursors.by_ref().take(READS_AT_ONCE).collect();
            let reads = wave.iter().map(|(pool, cursor)| {
                let store = &pool.store;
                store.list_queues_of(namespace, cursor.bucket, cursor.position, limit)
            });
            let pages = try_join_all(reads).await?;
            for ((pool, cursor), page) in wave.into_iter().zip(pages) {
                if found.len() + page.queues.len() > limit {
                    return Ok((found, Some(cursor)));
                }
                let here = page.queues.into_iter();
                found.extend(here.map(|listed| (pool, cursor.bucket, listed)));
                if let Some(position) = page.next {
                    return Ok((found, Some(QueueCursor { position, ..cursor })));
                }
            }
        }
        Ok((found, cursors.next().map(|(_, cursor)| cursor)))
    }

    /// The buckets in which a list continues.
    fn buckets_from(&self, from: QueueCursor) -> impl Iterator<Item = (&Self, QueueCursor)> {
        let pools = self.with_target().enumerate().skip(from.deployment);
        let buckets = pools.flat_map(move |(deployment, pool)| {
            let buckets = 0..=u16::try_from(pool.store.buckets() - 1).unwrap_or(u16::MAX);
            buckets.map(move |bucket| (pool, deployment, bucket))
        });
        let is_before =
            move |deployment, bucket| deployment == from.deployment && bucket < from.bucket;
        let rest =
            buckets.skip_while(move |(_, deployment, bucket)| is_before(*deployment, *bucket));
        rest.map(move |(pool, deployment, bucket)| {
            let mut cursor = QueueCursor {
                deployment,
                bucket,
                position: QueuePosition::default(),
            };
            if (deployment, bucket) == (from.deployment, from.bucket) {
                cursor.position = from.position;
            }
            (pool, cursor)
        })
    }

    /// A queue with the jobs of all its lanes and deployments. `None` if another one of these lists it: the first that
    /// has jobs does, or the first of all.
    async fn whole_queue(
        &self,
        (pool, bucket, listed): FoundQueue<'_>,
    ) -> Result<Option<(QueueName, JobsByState)>, StoreError> {
        let queue = listed.queue;
        let lanes: Vec<_> = self.all_lanes(&queue).collect();
        let all = match lanes.len() {
            1 => vec![listed.stats],
            _ => try_join_all(lanes.iter().map(|(pool, lane)| pool.store.stats(*lane))).await?,
        };
        let first = all
            .iter()
            .position(|stats| *stats != JobsByState::default());
        let (first_pool, first_lane) = lanes[first.unwrap_or(0)];
        if !std::ptr::eq(first_pool, pool) || pool.store.bucket_of(first_lane) != bucket {
            return Ok(None);
        }
        let mut sum = JobsByState::default();
        all.into_iter().for_each(|stats| sum += stats);
        Ok(Some((queue.queue.clone(), sum)))
    }

    /// Deletes the policy of a queue that has no jobs. Lists leave the queue out within two minutes: pumps forget queues
    /// without jobs.
    ///
    /// # Errors
    /// Redis gave no answer. The policy may be deleted.
    pub async fn delete_queue(&self, queue: &QueueKey) -> Result<DeleteQueueOutcome, EngineError> {
        let stats = self.stats(queue).await?;
        if stats != JobsByState::default() {
            return Ok(DeleteQueueOutcome::NotEmpty);
        }
        for pool in self.with_target() {
            let none = Policy::default();
            let _ = pool.policies.set(queue, &none, None).await?;
        }
        Ok(DeleteQueueOutcome::Deleted)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cursor_is_read_as_it_is_written() {
        for text in ["0.0.0:0", "1.65535.18446744073709551615:499"] {
            assert_eq!(text.parse::<QueueCursor>().unwrap().to_string(), text);
        }
        for text in [
            "",
            "0",
            "0.0",
            "0.0.0",
            "2.0.0:0",
            "0.65536.0:0",
            "0.0.x:0",
            "0.0.0:-1",
        ] {
            assert_eq!(text.parse::<QueueCursor>(), Err(InvalidPosition), "{text}");
        }
    }
}
