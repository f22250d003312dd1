use tidegate_core::v1::consume::{Outcome, SettleCall};
use tidegate_core::v1::values::Timestamp;
use tidegate_core::{JobId, QueueKey, RetryPolicy};

use super::settle::{LeasedJob, SettleVerb, outcome_of};
use crate::error::StoreError;
use crate::reply::Reply;
use crate::script::{LazyScript, script};
use crate::script_call::Call;
use crate::store::Store;

static FAIL: LazyScript = script!("fail").refused_without_memory();
/// The same for a server that has reached `maxmemory`: histories do not grow there.
static FAIL_WHEN_FULL: LazyScript = script!("fail");

/// The effect of a failure.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AfterFailure {
    /// The next attempt follows after the delay for it, unless this was the last one.
    RetryAsConfigured,
    /// The next attempt follows after this many ms, unless this was the last one.
    RetryInMs(u64),
    /// The job is dead.
    Bury,
}

/// A delivery that failed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FailRequest {
    /// The job and its delivery.
    pub job: LeasedJob,
    /// The effect.
    pub then: AfterFailure,
    /// The error, for the history of the job.
    pub error: String,
}

struct FailVerb<'a> {
    policy: &'a RetryPolicy,
    is_full: bool,
}

impl SettleVerb for FailVerb<'_> {
    type Item = FailRequest;
    type Outcome = Outcome;

    const GONE: Outcome = Outcome::Gone;

    fn id(failed: &FailRequest) -> JobId {
        failed.job.id
    }

    fn add_options<'c>(&self, call: Call<'c>) -> Call<'c> {
        call.arg(self.policy.max_attempts)
            .arg(self.policy.delays.bytes())
            .arg(u8::from(self.is_full))
    }

    fn when_full(&self) -> Option<(&'static LazyScript, Self)> {
        let is_full = true;
        Some((&FAIL_WHEN_FULL, Self { is_full, ..*self }))
    }

    fn add_item<'c>(&self, call: Call<'c>, failed: &FailRequest) -> Call<'c> {
        let call = call.arg(failed.job.attempt);
        let call = match failed.then {
            AfterFailure::RetryAsConfigured => call.arg(""),
            AfterFailure::RetryInMs(delay_ms) => call.arg(delay_ms),
            AfterFailure::Bury => call.arg("dead"),
        };
        // Scripts have no random numbers: the random numbers of Redis's Lua are the same in each call.
        call.arg(rand::random::<u16>()).arg(&failed.error)
    }

    fn read(_: &FailRequest, reply: &mut Reply, _: u64) -> Result<Outcome, StoreError> {
        let (number, due_at_ms) = (reply.count()?, reply.count()?);
        let run_at = Timestamp::saturating(due_at_ms);
        outcome_of(SettleCall::Fail, number, Outcome::Retry { run_at })
    }
}

impl Store {
    /// Ends deliveries that failed, and returns the outcome of each, in order. `policy` is the retry policy of jobs
    /// that have none. A server that has reached `maxmemory` stores an error only in the place of an older one.
    ///
    /// # Errors
    /// Redis is unavailable. Deliveries may have been ended; a repeated call finds them lost.
    pub async fn fail_all(
        &self,
        queue: &QueueKey,
        failed: &[FailRequest],
        policy: &RetryPolicy,
    ) -> Result<Vec<Outcome>, StoreError> {
        let is_full = false;
        self.settle(&FAIL, queue, &FailVerb { policy, is_full }, failed)
            .await
    }
}
