use tidegate_core::limits::DURATION_MS_MAX;
use tidegate_core::{JobId, QueueKey};

use super::settle::{LeasedJob, SettleVerb, Settled};
use crate::error::StoreError;
use crate::reply::Reply;
use crate::script::{LazyScript, script};
use crate::script_call::Call;
use crate::store::Store;

static RELEASE: LazyScript = script!("release");

/// The outcome of giving a delivery back.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[must_use]
pub enum ReleaseOutcome {
    /// The job is the next one of its queue again, or delayed.
    Done,
    /// The job is deleted, as its producer had requested.
    Cancelled,
    /// A newer version of the job, which waited for the end of this run, will run.
    Rerun,
    /// There is no such job in this queue.
    AlreadyGone,
    /// This delivery no longer holds the job.
    Lost,
}

struct Release {
    delay_ms: u64,
}

impl SettleVerb for Release {
    type Item = LeasedJob;
    type Outcome = ReleaseOutcome;

    const GONE: ReleaseOutcome = ReleaseOutcome::AlreadyGone;

    fn id(job: &LeasedJob) -> JobId {
        job.id
    }

    fn add_options<'c>(&self, call: Call<'c>) -> Call<'c> {
        call.arg(self.delay_ms.min(DURATION_MS_MAX))
    }

    fn add_item<'c>(&self, call: Call<'c>, job: &LeasedJob) -> Call<'c> {
        call.arg(job.attempt)
    }

    fn read(_: &LeasedJob, reply: &mut Reply, _: u64) -> Result<ReleaseOutcome, StoreError> {
        match Settled::read(reply)? {
            Settled::Gone => Ok(ReleaseOutcome::AlreadyGone),
            Settled::Applied => Ok(ReleaseOutcome::Done),
            Settled::Lost => Ok(ReleaseOutcome::Lost),
            Settled::Rerun => Ok(ReleaseOutcome::Rerun),
            Settled::Cancelled => Ok(ReleaseOutcome::Cancelled),
            other @ Settled::Buried => other.unexpected(),
        }
    }
}

impl Store {
    /// Gives a delivery back that did not reach its consumer. Its try is not counted.
    ///
    /// # Errors
    /// Those of [`Self::release_all`].
    pub async fn release(
        &self,
        queue: &QueueKey,
        id: JobId,
        attempt: u32,
    ) -> Result<ReleaseOutcome, StoreError> {
        let job = LeasedJob { id, attempt };
        let mut released = self.release_all(queue, &[job], 0).await?;
        Ok(released.pop().unwrap_or(ReleaseOutcome::AlreadyGone))
    }

    /// Gives deliveries of a queue back, and returns the outcome of each, in order. Without a delay they are the next
    /// jobs of their lane: the last one comes first, and the others follow in reverse order. Those of a bucket are given
    /// back in one step.
    ///
    /// # Errors
    /// Redis is unavailable. Unless the release was executed, the jobs are ready again when their leases expire, with one
    /// try less. A release may be repeated: the next delivery has another attempt.
    pub async fn release_all(
        &self,
        queue: &QueueKey,
        jobs: &[LeasedJob],
        delay_ms: u64,
    ) -> Result<Vec<ReleaseOutcome>, StoreError> {
        self.settle(&RELEASE, queue, &Release { delay_ms }, jobs)
            .await
    }
}
