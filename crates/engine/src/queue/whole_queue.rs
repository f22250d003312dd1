//! Verbs for a whole queue, in all its lanes. While a server does not answer they act on the lanes of the others, and
//! succeed only if the result is correct for all lanes (`docs/lanes.md`).

use std::time::Duration;

use futures_util::future::{join_all, try_join_all};
use futures_util::stream::{FuturesUnordered, StreamExt};
use tidegate_core::{JobsByState, Lane, QueueKey};
use tidegate_store::{DueTimes, PeekedJob, StoreError};
use tokio::time::timeout;

use crate::error::EngineError;
use crate::metrics::storage_failure::record_store_error;
use crate::pool::Pool;

/// The time after which a peek tries the next lane as well.
const PROMPT: Duration = Duration::from_millis(25);

/// A verb that changes dead jobs.
#[derive(Debug, Clone, Copy)]
enum DeadVerb {
    Respawn { ttl_ms: u64, due: DueTimes },
    Purge,
}

/// The result of changing dead jobs.
#[derive(Debug, Default)]
struct ChangedJobs {
    jobs: u64,
    /// The last error, if a lane failed.
    failed: Option<StoreError>,
}

impl Pool {
    /// All lanes of a queue, in each pool of [`Self::with_target`].
    pub(super) fn all_lanes<'a>(
        &'a self,
        queue: &'a QueueKey,
    ) -> impl Iterator<Item = (&'a Self, Lane<'a>)> {
        self.with_target().flat_map(move |pool| {
            let used = pool.lanes.used(queue);
            (0..used).map(move |number| (pool, queue.lane(number)))
        })
    }

    /// The next ready job of the first lane that has one.
    ///
    /// # Errors
    /// A lane failed, and no other lane has a job.
    pub async fn peek_ready(&self, queue: &QueueKey) -> Result<Option<PeekedJob>, EngineError> {
        let looks = self.all_lanes(queue).map(async |(pool, lane)| {
            let peeked = pool.store.peek_ready(lane).await?;
            Ok(peeked.map(|peeked| (pool, peeked)))
        });
        let found = first_found(looks).await?;
        Ok(found.and_then(|(pool, peeked)| pool.count_peeked(peeked)))
    }

    /// The oldest dead job of the first lane that has one.
    ///
    /// # Errors
    /// A lane failed, and no other lane has a job.
    pub async fn peek_dead(&self, queue: &QueueKey) -> Result<Option<PeekedJob>, EngineError> {
        let looks = self.all_lanes(queue).map(async |(pool, lane)| {
            let peeked = pool.store.peek_dead(lane).await?;
            Ok(peeked.map(|peeked| (pool, peeked)))
        });
        let found = first_found(looks).await?;
        Ok(found.and_then(|(pool, peeked)| pool.count_peeked(peeked)))
    }

    /// The numbers of jobs of all lanes.
    ///
    /// # Errors
    /// A lane failed. A sum without it would be mistaken for the size of the queue.
    pub async fn stats(&self, queue: &QueueKey) -> Result<JobsByState, EngineError> {
        let lanes = self
            .all_lanes(queue)
            .map(|(pool, lane)| pool.store.stats(lane));
        let mut stats = JobsByState::default();
        for of_lane in try_join_all(lanes).await? {
            stats += of_lane;
        }
        Ok(stats)
    }

    /// Deletes the ready jobs of all lanes, and returns how many.
    ///
    /// # Errors
    /// A lane failed. The ready jobs of the others are deleted.
    pub async fn purge_ready(&self, queue: &QueueKey) -> Result<u64, EngineError> {
        let purges = self.all_lanes(queue).map(async |(pool, lane)| {
            let purged = pool.store.purge_ready(lane).await?;
            pool.metrics.deleted(purged);
            Ok(purged)
        });
        let purged: Result<Vec<u64>, StoreError> = join_all(purges).await.into_iter().collect();
        Ok(purged?.into_iter().sum())
    }

    /// Deletes up to `limit` dead jobs, and returns how many.
    ///
    /// # Errors
    /// A lane failed, and the others had fewer than `limit` dead jobs. These are deleted.
    pub async fn purge_dead(&self, queue: &QueueKey, limit: u64) -> Result<u64, EngineError> {
        let ChangedJobs { jobs, failed } = self.change_dead(queue, limit, DeadVerb::Purge).await;
        match failed {
            Some(error) if jobs < limit => Err(error.into()),
            _ => Ok(jobs),
        }
    }

    /// Makes up to `limit` dead jobs ready, or delays them until these times, and returns how many. `ttl_ms` is their
    /// new time to live; 0 = for ever.
    ///
    /// # Errors
    /// A lane failed, and the others had no dead job.
    pub async fn respawn(
        &self,
        queue: &QueueKey,
        limit: u64,
        ttl_ms: u64,
        due: DueTimes,
    ) -> Result<u64, EngineError> {
        let respawn = DeadVerb::Respawn { ttl_ms, due };
        match self.change_dead(queue, limit, respawn).await {
            ChangedJobs {
                jobs: 0,
                failed: Some(error),
            } => Err(error.into()),
            ChangedJobs { jobs, failed } => {
                failed.iter().for_each(record_store_error);
                Ok(jobs)
            }
        }
    }

    /// Changes dead jobs, one lane after the other, because the limit applies to all lanes together.
    async fn change_dead(&self, queue: &QueueKey, limit: u64, verb: DeadVerb) -> ChangedJobs {
        let (lanes, failed) = self.responsive_lanes(queue).await;
        let mut changed = ChangedJobs { jobs: 0, failed };
        for (pool, lane) in lanes {
            let left = limit - changed.jobs;
            match pool.change_dead_in(lane, left, verb, changed.jobs).await {
                Ok(jobs) => changed.jobs += jobs,
                Err(error) => {
                    let is_in_doubt = !error.is_refusal();
                    changed.failed = Some(error);
                    // The failed call may have used up the limit.
                    if is_in_doubt {
                        break;
                    }
                }
            }
        }
        changed
    }

    /// `before` is the number of jobs of other lanes that were changed before.
    async fn change_dead_in(
        &self,
        lane: Lane<'_>,
        limit: u64,
        verb: DeadVerb,
        before: u64,
    ) -> Result<u64, StoreError> {
        match verb {
            DeadVerb::Respawn { ttl_ms, due } => {
                let due = DueTimes {
                    first: due.of(before),
                    ..due
                };
                let respawned = self.store.respawn_spaced(lane, limit, ttl_ms, due).await?;
                self.metrics.respawned(respawned);
                Ok(respawned)
            }
            DeadVerb::Purge => {
                let purged = self.store.purge_dead(lane, limit).await?;
                self.metrics.deleted(purged);
                Ok(purged)
            }
        }
    }

    /// The lanes whose servers answer, and the error of a server that does not. All are asked at once, so that several
    /// silent servers take no longer than one. A single lane is not asked.
    async fn responsive_lanes<'a>(
        &'a self,
        queue: &'a QueueKey,
    ) -> (Vec<(&'a Self, Lane<'a>)>, Option<StoreError>) {
        let pool_lanes: Vec<_> = self.all_lanes(queue).collect();
        if pool_lanes.len() == 1 {
            return (pool_lanes, None);
        }
        let calls = pool_lanes
            .iter()
            .map(|(pool, lane)| pool.store.stats(*lane));
        let answers = join_all(calls).await;
        let (mut answering, mut failed) = (Vec::new(), None);
        for (place, answer) in pool_lanes.into_iter().zip(answers) {
            match answer {
                Ok(_) => answering.push(place),
                Err(error) => failed = Some(error),
            }
        }
        (answering, failed)
    }
}

/// Runs the peeks in order and returns the first job found. A peek that takes longer than [`PROMPT`] continues while
/// the next one starts.
///
/// # Errors
/// A peek failed, and no other one found a job.
async fn first_found<T, L>(looks: impl Iterator<Item = L>) -> Result<Option<T>, StoreError>
where
    L: Future<Output = Result<Option<T>, StoreError>>,
{
    let mut looks = looks.fuse();
    let mut pending = FuturesUnordered::new();
    let mut failed = None;
    loop {
        let next = looks.next();
        let is_last = next.is_none();
        pending.extend(next);
        let looked = match is_last {
            true => pending.next().await,
            false => match timeout(PROMPT, pending.next()).await {
                Ok(looked) => looked,
                Err(_) => continue,
            },
        };
        match looked {
            Some(Ok(Some(found))) => {
                failed.iter().for_each(record_store_error);
                return Ok(Some(found));
            }
            Some(Ok(None)) => {}
            Some(Err(error)) => failed = Some(error),
            None => return failed.map_or(Ok(None), Err),
        }
    }
}

#[cfg(test)]
mod tests {
    use tokio::time::{Instant, sleep};

    use super::*;

    /// After how many seconds a peek answers, and its answer.
    type PeekAnswer = (u64, Result<Option<u32>, StoreError>);

    async fn look((seconds, answer): PeekAnswer) -> Result<Option<u32>, StoreError> {
        sleep(Duration::from_secs(seconds)).await;
        answer
    }

    fn failure() -> Result<Option<u32>, StoreError> {
        Err(StoreError::timed_out(Duration::from_secs(3)))
    }

    #[tokio::test(start_paused = true)]
    async fn a_job_is_found_beside_lanes_that_fail_or_answer_late() {
        let began_at = Instant::now();
        let looks = [
            (0, Ok(None)),
            (3, failure()),
            (0, failure()),
            (0, Ok(Some(4))),
            (0, Ok(Some(5))),
        ];
        let found = first_found(looks.into_iter().map(look)).await;
        assert_eq!(found.unwrap(), Some(4));
        assert!(began_at.elapsed() < PROMPT * 2, "{:?}", began_at.elapsed());
    }

    #[tokio::test(start_paused = true)]
    async fn a_late_lane_may_have_the_only_job() {
        let looks = [(3, Ok(Some(1))), (0, Ok(None)), (1, failure())];
        let found = first_found(looks.into_iter().map(look)).await;
        assert_eq!(found.unwrap(), Some(1));
    }

    #[tokio::test(start_paused = true)]
    async fn no_job_is_reported_only_after_all_lanes_have_answered() {
        let looks = [(0, Ok(None)), (2, Ok(None))];
        assert_eq!(
            first_found(looks.into_iter().map(look)).await.unwrap(),
            None
        );
        let looks = [(3, failure()), (0, Ok(None))];
        assert!(first_found(looks.into_iter().map(look)).await.is_err());
    }
}
