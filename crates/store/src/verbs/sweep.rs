use crate::error::StoreError;
use crate::script::{LazyScript, script};
use crate::store::Store;

static SWEEP: LazyScript = script!("sweep");

/// Maximum number of chunks that one call sweeps: it blocks Redis for about 10 ms if all of their jobs have expired.
pub const SWEEP_CHUNKS_MAX: u64 = 20;

/// Least time between two reads of a chunk, in ms. It bounds the reads of a chunk whose jobs expire one by one.
pub(super) const PAUSE_MS: u64 = 1000;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[must_use]
pub enum SweepOutcome {
    /// The caller leads the bucket.
    Done {
        /// Expired jobs that were deleted.
        expired: u64,
        /// More chunks are due: call again.
        more: bool,
        /// Time until the next chunk is due, in ms, if there is one.
        next_in_ms: Option<u64>,
    },
    /// The caller does not lead the bucket; nothing changed.
    NotLeading,
}

impl Store {
    /// Deletes the expired jobs of up to `limit` chunks of up to 100 jobs, at most [`SWEEP_CHUNKS_MAX`].
    ///
    /// # Errors
    /// Redis is unavailable. The call may have been executed; it is safe to repeat it.
    pub async fn sweep(
        &self,
        bucket: u16,
        token: &str,
        limit: u64,
    ) -> Result<SweepOutcome, StoreError> {
        let call = self
            .call_on_lock(&SWEEP, bucket, token)
            .arg(limit.min(SWEEP_CHUNKS_MAX))
            .arg(PAUSE_MS);
        let mut reply = call.send().await?;
        match reply.token() {
            "ok" => Ok(SweepOutcome::Done {
                expired: reply.count()?,
                more: reply.flag()?,
                next_in_ms: reply.optional()?,
            }),
            "lost" => Ok(SweepOutcome::NotLeading),
            _ => reply.unknown(),
        }
    }
}
