use tidegate_core::limits::DURATION_MS_MAX;
use tidegate_core::{JobId, QueueKey};

use super::settle::{LeasedJob, SettleVerb, Settled};
use crate::error::StoreError;
use crate::reply::Reply;
use crate::script::{LazyScript, script};
use crate::script_call::Call;
use crate::store::Store;

static TOUCH: LazyScript = script!("touch");

/// The outcome of extending a lease.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[must_use]
pub enum TouchOutcome {
    /// The delivery holds the job.
    Extended {
        /// The end of the lease, in ms since 1970.
        until_ms: u64,
        /// Its producer wants the job cancelled.
        cancel_requested: bool,
    },
    /// There is no such job in this queue.
    AlreadyGone,
    /// This delivery no longer holds the job.
    Lost,
}

struct Touch {
    lease_ms: Option<u64>,
    default_ms: u64,
}

impl SettleVerb for Touch {
    type Item = LeasedJob;
    type Outcome = TouchOutcome;

    const GONE: TouchOutcome = TouchOutcome::AlreadyGone;

    fn id(job: &LeasedJob) -> JobId {
        job.id
    }

    fn add_options<'c>(&self, call: Call<'c>) -> Call<'c> {
        let lease_ms = self.lease_ms.map(|ms| ms.min(DURATION_MS_MAX).to_string());
        call.arg(lease_ms.unwrap_or_default()).arg(self.default_ms)
    }

    fn add_item<'c>(&self, call: Call<'c>, job: &LeasedJob) -> Call<'c> {
        call.arg(job.attempt)
    }

    fn read(_: &LeasedJob, reply: &mut Reply, _: u64) -> Result<TouchOutcome, StoreError> {
        let (outcome, until_ms) = (Settled::read(reply)?, reply.count()?);
        let extended = |cancel_requested| TouchOutcome::Extended {
            until_ms,
            cancel_requested,
        };
        match outcome {
            Settled::Gone => Ok(TouchOutcome::AlreadyGone),
            Settled::Lost => Ok(TouchOutcome::Lost),
            Settled::Applied => Ok(extended(false)),
            Settled::Cancelled => Ok(extended(true)),
            other => other.unexpected(),
        }
    }
}

impl Store {
    /// Extends leases to `lease_ms` from now, or by the length that each job has, or by `default_ms`. No lease becomes
    /// shorter. Returns the outcome of each, in order.
    ///
    /// # Errors
    /// Redis is unavailable. Leases may have been extended; the call may be repeated.
    pub async fn touch_all(
        &self,
        queue: &QueueKey,
        jobs: &[LeasedJob],
        lease_ms: Option<u64>,
        default_ms: u64,
    ) -> Result<Vec<TouchOutcome>, StoreError> {
        let touch = Touch {
            lease_ms,
            default_ms,
        };
        self.settle(&TOUCH, queue, &touch, jobs).await
    }
}
