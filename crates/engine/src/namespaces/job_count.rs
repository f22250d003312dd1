//! Room for jobs of a pool: how their number is read, and when.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use tidegate_core::Namespace;
use tidegate_daemon::run_to_end;
use tidegate_store::{BucketSizes, NamespaceFull};
use tokio::time::{Instant, sleep_until, timeout};

use super::job_room::{JobCount, JobRoom, JobsByBucket, unfinished};
use crate::pool::Pool;

/// The least time between two counts, at which publishes that would be refused wait.
const PAUSE: Duration = Duration::from_millis(200);
/// The same in lengths of the last count.
const PAUSE_LENGTHS: u32 = 10;
/// A publish does not wait longer than this for a count: it is refused by the last one.
const PATIENCE: Duration = Duration::from_secs(1);

impl Pool {
    /// Takes room for up to `wanted` jobs of a namespace that may have `max` of them, but for `least` or none.
    ///
    /// # Errors
    /// There was less room when this process counted last: after the call, unless a count takes long.
    pub(crate) async fn take_job_room(
        self: &Arc<Self>,
        namespace: &Namespace,
        max: u64,
        (least, wanted): (u64, u64),
    ) -> Result<JobRoom, NamespaceFull> {
        let full = NamespaceFull::of_jobs(max);
        if least > max {
            return Err(full);
        }
        let called_at = Instant::now();
        let is_known = {
            let known = self.job_rooms.known.lock();
            known
                .count
                .as_ref()
                .is_some_and(|count| !count.is_useless())
        };
        if !is_known {
            self.count_jobs(called_at).await;
        }
        let take = |least| {
            let mut known = self.job_rooms.known.lock();
            known.take(namespace, max, (least, wanted))
        };
        let mut taken = take(wanted);
        if taken.is_none() {
            self.count_jobs(called_at).await;
            taken = take(least);
        }
        let jobs = taken.ok_or(full)?;
        self.renew_job_count(namespace, max);
        let rooms = Arc::clone(&self.job_rooms);
        Ok(JobRoom::new(rooms, namespace.clone(), jobs))
    }

    /// Counts again in the background, if that is due.
    fn renew_job_count(self: &Arc<Self>, namespace: &Namespace, max: u64) {
        let mut known = self.job_rooms.known.lock();
        if known.is_to_be_renewed(namespace, max) {
            known.is_renewing = true;
            let pool = Arc::clone(self);
            tokio::spawn(async move {
                pool.count_jobs(Instant::now()).await;
                pool.job_rooms.known.lock().is_renewing = false;
            });
        }
    }

    /// Counts all jobs, unless a count has begun since `wanted_at`, or would have to wait for long. Of several callers
    /// one counts, and the others wait for it. A count that has begun ends although its request ends, or waits no longer.
    async fn count_jobs(self: &Arc<Self>, wanted_at: Instant) {
        let pool = Arc::clone(self);
        let counting = run_to_end(async move {
            let mut buckets = pool.job_rooms.counting.lock().await;
            let last = {
                let known = pool.job_rooms.known.lock();
                let last = known.count.as_ref();
                last.map(|count| (count.began_at, count.after(PAUSE, PAUSE_LENGTHS)))
            };
            if let Some((began_at, next_at)) = last {
                if began_at >= wanted_at || next_at > Instant::now() + PATIENCE {
                    return;
                }
                sleep_until(next_at).await;
            }
            pool.job_rooms.known.lock().begin_count();
            let began_at = Instant::now();
            let is_complete = pool.read_jobs_by_bucket(&mut buckets).await;
            let count = JobCount {
                began_at,
                length: began_at.elapsed(),
                is_complete,
                jobs: sum(&buckets),
            };
            pool.job_rooms.known.lock().end_count(count);
        });
        let _ = timeout(PATIENCE, counting).await;
    }

    /// Reads how many jobs each namespace has in each bucket. Returns whether all buckets were read; of others what was
    /// read last is kept.
    async fn read_jobs_by_bucket(&self, buckets: &mut JobsByBucket) -> bool {
        let mut is_complete = true;
        for (deployment, pool) in self.with_target().enumerate() {
            for (bucket, sizes) in pool.reads.buckets_now().await {
                match sizes {
                    Some(sizes) => drop(buckets.insert((deployment, bucket), jobs_of(&sizes))),
                    None => is_complete = false,
                }
            }
        }
        is_complete
    }
}

fn jobs_of(sizes: &BucketSizes) -> HashMap<Namespace, u64> {
    let mut jobs = HashMap::new();
    for listed in &sizes.queues {
        *jobs.entry(listed.queue.namespace.clone()).or_default() += unfinished(listed.stats);
    }
    jobs
}

fn sum(buckets: &JobsByBucket) -> HashMap<Namespace, u64> {
    let mut sums: HashMap<Namespace, u64> = HashMap::new();
    for (namespace, jobs) in buckets.values().flatten() {
        match sums.get_mut(namespace) {
            Some(sum) => *sum += jobs,
            None => drop(sums.insert(namespace.clone(), *jobs)),
        }
    }
    sums
}
