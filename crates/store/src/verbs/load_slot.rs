use crate::error::StoreError;
use crate::script::{LazyScript, script};
use crate::store::Store;

static LOAD_SLOT: LazyScript = script!("load_slot");

/// Maximum number of far hints that one call loads: it blocks Redis for up to 5 ms.
pub const LOAD_HINTS_MAX: u64 = 1000;

/// The outcome of loading far timers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[must_use]
pub enum LoadSlotOutcome {
    /// The caller leads the bucket.
    Done {
        /// Jobs whose hints were loaded.
        loaded: u64,
        /// More hints are to be loaded: call again.
        more: bool,
        /// Time until the next slot is to be loaded, in ms, if there is one.
        next_in_ms: Option<u64>,
        /// Time until the next tick of a schedule, in ms, if there is one.
        next_tick_in_ms: Option<u64>,
    },
    /// The caller does not lead the bucket; nothing changed.
    NotLeading,
}

impl Store {
    /// Moves up to `limit` hints, at most [`LOAD_HINTS_MAX`], of slots that begin soon from far to near.
    ///
    /// # Errors
    /// Redis is unavailable. The call may have been executed; it is safe to repeat it.
    pub async fn load_slot(
        &self,
        bucket: u16,
        token: &str,
        limit: u64,
    ) -> Result<LoadSlotOutcome, StoreError> {
        let call = self
            .call_on_lock(&LOAD_SLOT, bucket, token)
            .arg(limit.min(LOAD_HINTS_MAX));
        let mut reply = call.send().await?;
        match reply.token() {
            "ok" => Ok(LoadSlotOutcome::Done {
                loaded: reply.count()?,
                more: reply.flag()?,
                next_in_ms: reply.optional()?,
                next_tick_in_ms: reply.optional()?,
            }),
            "lost" => Ok(LoadSlotOutcome::NotLeading),
            _ => reply.unknown(),
        }
    }
}
