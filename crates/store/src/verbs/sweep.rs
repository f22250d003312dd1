use crate::script::{LazyScript, script};
use crate::{Store, StoreError};

static SWEEP: LazyScript = script!("sweep");

/// The most chunks that one call sweeps: where all their jobs have expired it holds Redis for about 10 ms.
pub const SWEEP_CHUNKS_MAX: u64 = 20;

/// A chunk with jobs that expire one by one is looked at no more often than this, in ms.
pub(super) const PAUSE_MS: u64 = 1000;

/// What sweeping did.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[must_use]
pub enum Swept {
    /// The caller leads the bucket.
    Done {
        /// Expired jobs that were deleted.
        expired: u64,
        /// More chunks are waiting: call again.
        more: bool,
        /// Time until a chunk has to be looked at, in ms.
        next_in_ms: Option<u64>,
    },
    /// The caller does not lead the bucket; nothing changed.
    NotLeading,
}

impl Store {
    /// Deletes the expired jobs of up to `limit` chunks of up to 100 jobs, at most [`SWEEP_CHUNKS_MAX`].
    ///
    /// # Errors
    /// Redis is unavailable.
    pub async fn sweep(&self, bucket: u16, token: &str, limit: u64) -> Result<Swept, StoreError> {
        let call = self
            .call_on_lock(&SWEEP, bucket, token)
            .arg(limit.min(SWEEP_CHUNKS_MAX))
            .arg(PAUSE_MS);
        let mut reply = call.send().await?;
        match reply.token() {
            "ok" => Ok(Swept::Done {
                expired: reply.count()?,
                more: reply.flag()?,
                next_in_ms: reply.optional()?,
            }),
            "lost" => Ok(Swept::NotLeading),
            _ => reply.unknown(),
        }
    }
}
