use tidegate_core::limits::DURATION_MS_MAX;
use tidegate_core::v1::consume::{Outcome, SettleCall};
use tidegate_core::{JobId, QueueKey};

use super::settle::{LeasedJob, SettleVerb, outcome_of};
use crate::error::StoreError;
use crate::reply::Reply;
use crate::script::{LazyScript, script};
use crate::script_call::Call;
use crate::store::Store;

static RELEASE: LazyScript = script!("release");

struct Release {
    delay_ms: u64,
}

impl SettleVerb for Release {
    type Item = LeasedJob;
    type Outcome = Outcome;

    const GONE: Outcome = Outcome::Gone;

    fn id(job: &LeasedJob) -> JobId {
        job.id
    }

    fn add_options<'c>(&self, call: Call<'c>) -> Call<'c> {
        call.arg(self.delay_ms.min(DURATION_MS_MAX))
    }

    fn add_item<'c>(&self, call: Call<'c>, job: &LeasedJob) -> Call<'c> {
        call.arg(job.attempt)
    }

    fn read(_: &LeasedJob, reply: &mut Reply, _: u64) -> Result<Outcome, StoreError> {
        outcome_of(SettleCall::Release, reply.count()?, Outcome::Released)
    }
}

impl Store {
    /// Gives a delivery back that did not reach its consumer. Its try is not counted.
    ///
    /// # Errors
    /// The errors of [`Self::release_all`].
    pub async fn release(
        &self,
        queue: &QueueKey,
        id: JobId,
        attempt: u32,
    ) -> Result<Outcome, StoreError> {
        let job = LeasedJob { id, attempt };
        let mut released = self.release_all(queue, &[job], 0).await?;
        Ok(released.pop().unwrap_or(Outcome::Gone))
    }

    /// Gives deliveries of a queue back, and returns the outcome of each, in order. Without a delay they are the next
    /// jobs of their lane: the last job comes first, and the others follow in reverse order. The jobs of a bucket are
    /// given back in one step.
    ///
    /// # Errors
    /// Redis is unavailable. Unless the release was executed, the jobs are ready again when their leases expire, with
    /// one try less. A release may be repeated: the next delivery has another attempt.
    pub async fn release_all(
        &self,
        queue: &QueueKey,
        jobs: &[LeasedJob],
        delay_ms: u64,
    ) -> Result<Vec<Outcome>, StoreError> {
        self.settle(&RELEASE, queue, &Release { delay_ms }, jobs)
            .await
    }
}
