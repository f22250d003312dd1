//! Room for jobs of a pool: how their number is read, and when.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use tidegate_core::Namespace;
use tidegate_daemon::run_to_end;
use tidegate_store::NamespaceFull;
use tokio::time::{Instant, sleep_until};

use super::job_room::{JobCount, JobRoom, unfinished};
use crate::pool::Pool;

/// The least time between two counts, at which publishes that would be refused wait.
const PAUSE: Duration = Duration::from_millis(200);
/// The same for each 1,000 queues.
const PAUSE_PER_1000_QUEUES: Duration = Duration::from_millis(100);
/// A publish does not wait longer than this for a count: it is refused by the last one.
const PATIENCE: Duration = Duration::from_secs(1);

impl Pool {
    /// Takes room for up to `wanted` jobs of a namespace that may have `max` of them, but for `least` or none.
    ///
    /// # Errors
    /// There was less room when this process counted last, after the call.
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
        let is_counted = self.job_rooms.known.lock().count.is_some();
        if !is_counted {
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
    /// one counts, and the others wait for it. A count that has begun ends although its request ends.
    async fn count_jobs(self: &Arc<Self>, wanted_at: Instant) {
        let pool = Arc::clone(self);
        run_to_end(async move {
            let _counting = pool.job_rooms.counting.lock().await;
            let last = pool
                .job_rooms
                .known
                .lock()
                .count
                .as_ref()
                .map(|count| (count.began_at, count.after(PAUSE, PAUSE_PER_1000_QUEUES)));
            if let Some((began_at, next_at)) = last {
                if began_at >= wanted_at || next_at > Instant::now() + PATIENCE {
                    return;
                }
                sleep_until(next_at).await;
            }
            pool.job_rooms.known.lock().begin_count();
            let began_at = Instant::now();
            let (queues, jobs) = pool.jobs_by_namespace().await;
            let count = JobCount {
                began_at,
                queues,
                jobs,
            };
            pool.job_rooms.known.lock().end_count(count);
        })
        .await;
    }

    /// The number of queues, and how many jobs each namespace has. Buckets that cannot be read have none.
    async fn jobs_by_namespace(&self) -> (usize, HashMap<Namespace, u64>) {
        let (mut queues, mut by_namespace) = (0, HashMap::new());
        for pool in self.with_target() {
            let sizes = pool.reads.sizes_now().await;
            queues += sizes.queues.len();
            for listed in &sizes.queues {
                let namespace = &listed.queue.namespace;
                let jobs = unfinished(listed.stats);
                match by_namespace.get_mut(namespace) {
                    Some(sum) => *sum += jobs,
                    None => drop(by_namespace.insert(namespace.clone(), jobs)),
                }
            }
        }
        (queues, by_namespace)
    }
}
