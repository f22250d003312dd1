use crate::script::{LazyScript, script};
use crate::{Store, StoreError};

static LOAD_SLOT: LazyScript = script!("load_slot");

/// The most far hints that one call loads: it holds Redis for up to 5 ms.
pub const LOAD_HINTS_MAX: u64 = 1000;

/// What loading far timers did.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[must_use]
pub enum LoadedSlot {
    /// The caller leads the bucket.
    Done {
        /// Jobs whose hints were loaded.
        loaded: u64,
        /// More hints are waiting: call again.
        more: bool,
        /// Time until the next slot has to be loaded, in ms, if there is one.
        next_in_ms: Option<u64>,
    },
    /// The caller does not lead the bucket; nothing changed.
    NotLeading,
}

impl Store {
    /// Moves up to `limit` hints, at most [`LOAD_HINTS_MAX`], of slots that begin soon from the far timers to near.
    ///
    /// # Errors
    /// Redis is unavailable.
    pub async fn load_slot(
        &self,
        bucket: u16,
        token: &str,
        limit: u64,
    ) -> Result<LoadedSlot, StoreError> {
        let call = self
            .call_on_lock(&LOAD_SLOT, bucket, token)
            .arg(limit.min(LOAD_HINTS_MAX));
        let mut reply = call.send().await?;
        match reply.token() {
            "ok" => Ok(LoadedSlot::Done {
                loaded: reply.count()?,
                more: reply.flag()?,
                next_in_ms: reply.optional()?,
            }),
            "lost" => Ok(LoadedSlot::NotLeading),
            _ => reply.unknown(),
        }
    }
}
