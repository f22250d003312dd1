use tidegate_core::limits::DURATION_MS_MAX;
use tidegate_core::v1::consume::{Outcome, SettleCall};
use tidegate_core::v1::values::Timestamp;
use tidegate_core::{JobId, QueueKey};

use super::settle::{LeasedJob, SettleVerb, outcome_of};
use crate::error::StoreError;
use crate::reply::Reply;
use crate::script::{LazyScript, script};
use crate::script_call::Call;
use crate::store::Store;

static TOUCH: LazyScript = script!("touch");
/// The number that the script gives a lease that is extended although a cancel was requested.
const CANCELLED: u64 = 4;

struct Touch {
    lease_ms: Option<u64>,
    default_ms: u64,
}

impl SettleVerb for Touch {
    type Item = LeasedJob;
    type Outcome = Outcome;

    const GONE: Outcome = Outcome::Gone;

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

    fn read(_: &LeasedJob, reply: &mut Reply, _: u64) -> Result<Outcome, StoreError> {
        let (number, until_ms) = (reply.count()?, reply.count()?);
        let extended = |cancel_requested| Outcome::Extended {
            lease_until: Timestamp::saturating(until_ms),
            cancel_requested,
        };
        match number {
            CANCELLED => Ok(extended(true)),
            _ => outcome_of(SettleCall::Touch, number, extended(false)),
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
    ) -> Result<Vec<Outcome>, StoreError> {
        let touch = Touch {
            lease_ms,
            default_ms,
        };
        self.settle(&TOUCH, queue, &touch, jobs).await
    }
}
