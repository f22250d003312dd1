use crate::error::StoreError;
use crate::script::{LazyScript, script};
use crate::store::Store;

static MOVE_DUE: LazyScript = script!("move_due");

/// Maximum number of timers that one call reads: it blocks Redis for up to 5 ms.
pub const MOVE_TIMERS_MAX: u64 = 1000;

/// The outcome of moving due jobs.
#[derive(Debug, Clone, PartialEq, Eq)]
#[must_use]
pub enum MoveDueOutcome {
    /// The caller leads the bucket.
    Done {
        /// More jobs are due: call again.
        more: bool,
        /// Time until the first near timer that is not due yet, in µs, if there is one. Timers of a queue
        /// that has more due jobs do not count.
        next_in_us: Option<u64>,
        /// Jobs that are dead now: without tries left, or with too many losses.
        buried: u64,
        /// Expired jobs, which were deleted.
        expired: u64,
        /// Stale hints, which were dropped.
        stale: u64,
        /// The lateness of each job made ready, in ms.
        latenesses_ms: Vec<u64>,
    },
    /// The caller does not lead the bucket; nothing changed.
    NotLeading,
}

impl Store {
    /// Takes up to `limit` due hints of a bucket, at most [`MOVE_TIMERS_MAX`], and makes their jobs ready, or dead if
    /// they have no try left. Jobs that count failures are dead once `losses_max` leases have expired.
    ///
    /// # Errors
    /// Redis is unavailable. The call may have been executed; it is safe to repeat it.
    pub async fn move_due(
        &self,
        bucket: u16,
        token: &str,
        limit: u64,
        losses_max: u16,
    ) -> Result<MoveDueOutcome, StoreError> {
        let call = self
            .call_on_lock(&MOVE_DUE, bucket, token)
            .arg(limit.min(MOVE_TIMERS_MAX))
            .arg(losses_max);
        let mut reply = call.send().await?;
        match reply.token() {
            "ok" => {
                let more = reply.flag()?;
                let next_in_us = reply.optional()?;
                let buried = reply.count()?;
                let (expired, stale) = (reply.count()?, reply.count()?);
                let mut latenesses_ms = Vec::new();
                while reply.has_more() {
                    latenesses_ms.push(reply.count()?);
                }
                Ok(MoveDueOutcome::Done {
                    more,
                    next_in_us,
                    buried,
                    expired,
                    stale,
                    latenesses_ms,
                })
            }
            "lost" => Ok(MoveDueOutcome::NotLeading),
            _ => reply.unknown(),
        }
    }
}
