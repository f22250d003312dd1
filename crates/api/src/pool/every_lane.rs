//! Verbs about a queue as a whole. They reach its lanes on servers that answer, also while another server does not, and
//! succeed only if what they answer is true of all lanes (`docs/lanes.md`).

use std::time::Duration;

use futures_util::future::{join_all, try_join_all};
use futures_util::stream::{FuturesUnordered, StreamExt};
use tidegate_core::{Lane, QueueKey};
use tidegate_store::{Peeked, Stats, StoreError};
use tokio::time::timeout;

use super::Pool;
use crate::metrics::storage_failed;

/// A look into a lane that takes longer continues beside the look into the next one.
const PROMPT: Duration = Duration::from_millis(25);

/// What is done with dead jobs.
#[derive(Debug, Clone, Copy)]
enum DeadVerb {
    Respawn { ttl_ms: u64 },
    Purge,
}

/// What became of a verb that was to change so many jobs at most.
#[derive(Debug, Default)]
struct Changed {
    jobs: u64,
    /// Why not all lanes were reached.
    failed: Option<StoreError>,
}

impl Pool {
    /// Where jobs of a queue may be: the lanes of each of [`Self::both`].
    fn places<'a>(&'a self, queue: &'a QueueKey) -> impl Iterator<Item = (&'a Self, Lane<'a>)> {
        self.both().flat_map(move |pool| {
            let used = pool.lanes.used(queue);
            (0..used).map(move |number| (pool, queue.lane(number)))
        })
    }

    /// A job that is ready, from the first lane that has one.
    ///
    /// # Errors
    /// A lane failed, and no other one has a job.
    pub(crate) async fn peek_ready(&self, queue: &QueueKey) -> Result<Option<Peeked>, StoreError> {
        let looks = self.places(queue).map(async |(pool, lane)| {
            let peeked = pool.store.peek_ready(lane).await?;
            Ok(peeked.map(|peeked| (pool, peeked)))
        });
        let found = first_found(looks).await?;
        Ok(found.and_then(|(pool, peeked)| pool.show(peeked)))
    }

    /// The oldest dead job of the first lane that has one.
    ///
    /// # Errors
    /// A lane failed, and no other one has a job.
    pub(crate) async fn peek_dead(&self, queue: &QueueKey) -> Result<Option<Peeked>, StoreError> {
        let looks = self.places(queue).map(async |(pool, lane)| {
            let peeked = pool.store.peek_dead(lane).await?;
            Ok(peeked.map(|peeked| (pool, peeked)))
        });
        let found = first_found(looks).await?;
        Ok(found.and_then(|(pool, peeked)| pool.show(peeked)))
    }

    /// The jobs of all lanes.
    ///
    /// # Errors
    /// A lane failed: a sum without it would be taken for the size of the queue.
    pub(crate) async fn stats(&self, queue: &QueueKey) -> Result<Stats, StoreError> {
        let lanes = self
            .places(queue)
            .map(|(pool, lane)| pool.store.stats(lane));
        let mut stats = Stats::default();
        for of_lane in try_join_all(lanes).await? {
            stats += of_lane;
        }
        Ok(stats)
    }

    /// Deletes the ready jobs of all lanes.
    ///
    /// # Errors
    /// A lane failed. The others have no ready jobs any more.
    pub(crate) async fn purge_ready(&self, queue: &QueueKey) -> Result<(), StoreError> {
        let purges = self.places(queue).map(async |(pool, lane)| {
            let purged = pool.store.purge_ready(lane).await?;
            pool.figures.purged(purged);
            Ok(())
        });
        join_all(purges).await.into_iter().collect()
    }

    /// Deletes so many dead jobs, or all if there are fewer.
    ///
    /// # Errors
    /// A lane failed, and the others had fewer dead jobs. These are deleted.
    pub(crate) async fn purge_dead(&self, queue: &QueueKey, limit: u64) -> Result<(), StoreError> {
        let Changed { jobs, failed } = self.change_dead(queue, limit, DeadVerb::Purge).await;
        match failed {
            Some(error) if jobs < limit => Err(error),
            _ => Ok(()),
        }
    }

    /// Makes so many dead jobs ready, or all if there are fewer, and answers how many it made ready.
    ///
    /// # Errors
    /// A lane failed, and the others had no dead job.
    pub(crate) async fn respawn(
        &self,
        queue: &QueueKey,
        limit: u64,
        ttl_ms: u64,
    ) -> Result<u64, StoreError> {
        let respawn = DeadVerb::Respawn { ttl_ms };
        match self.change_dead(queue, limit, respawn).await {
            Changed {
                jobs: 0,
                failed: Some(error),
            } => Err(error),
            Changed { jobs, failed } => {
                failed.iter().for_each(storage_failed);
                Ok(jobs)
            }
        }
    }

    /// Changes dead jobs of one lane after the other, as the limit is that of all.
    async fn change_dead(&self, queue: &QueueKey, limit: u64, verb: DeadVerb) -> Changed {
        let (lanes, failed) = self.answering(queue).await;
        let mut changed = Changed { jobs: 0, failed };
        for (pool, lane) in lanes {
            let left = limit - changed.jobs;
            match pool.change_dead_in(lane, left, verb).await {
                Ok(jobs) => changed.jobs += jobs,
                Err(error) => {
                    let is_in_doubt = !error.is_refusal();
                    changed.failed = Some(error);
                    // It may have changed as many jobs as were left.
                    if is_in_doubt {
                        break;
                    }
                }
            }
        }
        changed
    }

    async fn change_dead_in(
        &self,
        lane: Lane<'_>,
        limit: u64,
        verb: DeadVerb,
    ) -> Result<u64, StoreError> {
        match verb {
            DeadVerb::Respawn { ttl_ms } => {
                let respawned = self.store.respawn(lane, limit, ttl_ms).await?;
                self.figures.respawned(respawned);
                Ok(respawned)
            }
            DeadVerb::Purge => {
                let purged = self.store.purge_dead(lane, limit).await?;
                self.figures.purged(purged);
                Ok(purged)
            }
        }
    }

    /// The lanes whose servers answer, and why another one does not. All are asked at once, so that several that do not
    /// answer take no longer than one. A single lane is not asked.
    async fn answering<'a>(
        &'a self,
        queue: &'a QueueKey,
    ) -> (Vec<(&'a Self, Lane<'a>)>, Option<StoreError>) {
        let places: Vec<_> = self.places(queue).collect();
        if places.len() == 1 {
            return (places, None);
        }
        let asked = places.iter().map(|(pool, lane)| pool.store.stats(*lane));
        let answers = join_all(asked).await;
        let (mut answering, mut failed) = (Vec::new(), None);
        for (place, answer) in places.into_iter().zip(answers) {
            match answer {
                Ok(_) => answering.push(place),
                Err(error) => failed = Some(error),
            }
        }
        (answering, failed)
    }
}

/// What the first look finds, in their order. One that takes long keeps the next from nothing.
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
                failed.iter().for_each(storage_failed);
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

    /// What a look into a lane answers, and after how many seconds.
    type Look = (u64, Result<Option<u32>, StoreError>);

    async fn look((seconds, answer): Look) -> Result<Option<u32>, StoreError> {
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
    async fn that_there_is_no_job_is_known_when_all_lanes_have_answered() {
        let looks = [(0, Ok(None)), (2, Ok(None))];
        assert_eq!(
            first_found(looks.into_iter().map(look)).await.unwrap(),
            None
        );
        let looks = [(3, failure()), (0, Ok(None))];
        assert!(first_found(looks.into_iter().map(look)).await.is_err());
    }
}
