use crate::script::{LazyScript, script};
use crate::{Store, StoreError};

static MOVE_DUE: LazyScript = script!("move_due");

/// The most timers that one call looks at: it holds Redis for up to 5 ms.
pub const MOVE_TIMERS_MAX: u64 = 1000;

/// What moving due jobs did.
#[derive(Debug, Clone, PartialEq, Eq)]
#[must_use]
pub enum MovedDue {
    /// The caller leads the bucket.
    Done {
        /// More jobs are due: call again.
        more: bool,
        /// Time until the next due time in near, in µs.
        next_in_us: Option<u64>,
        /// Jobs whose tries were used up.
        buried: u64,
        /// Jobs whose time to live was over.
        expired: u64,
        /// Hints that no record agreed with.
        stale: u64,
        /// The lateness of each job made ready, in ms.
        latenesses_ms: Vec<u64>,
    },
    /// The caller does not lead the bucket; nothing changed.
    NotLeading,
}

impl Store {
    /// Looks at up to `limit` due hints of a bucket, at most [`MOVE_TIMERS_MAX`], and makes their jobs
    /// ready, or dead when their tries are used up.
    ///
    /// # Errors
    /// Redis is unavailable.
    pub async fn move_due(
        &self,
        bucket: u16,
        token: &str,
        limit: u64,
    ) -> Result<MovedDue, StoreError> {
        let call = self
            .call_on_lock(&MOVE_DUE, bucket, token)
            .arg(limit.min(MOVE_TIMERS_MAX));
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
                Ok(MovedDue::Done {
                    more,
                    next_in_us,
                    buried,
                    expired,
                    stale,
                    latenesses_ms,
                })
            }
            "lost" => Ok(MovedDue::NotLeading),
            _ => reply.unknown(),
        }
    }
}
