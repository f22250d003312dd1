use bytes::Bytes;
use tidegate_core::ColdReference;

use crate::error::StoreError;
use crate::script::{LazyScript, script};
use crate::store::Store;

static FREEZE: LazyScript = script!("freeze");

/// Most jobs of one call that freezes or thaws.
pub const COLD_CALL_JOBS: usize = 64;
/// Bytes of payloads, after which a call that freezes or thaws takes no further job.
pub const COLD_CALL_BYTES: usize = 128 * 1024;

/// A payload that has been stored in the cold tier.
#[derive(Debug, Clone)]
pub struct FrozenPayload {
    pub number: u64,
    pub payload: Bytes,
    pub reference: ColdReference,
}

impl Store {
    /// Replaces payloads that have been stored by their references, in jobs that still have them, and notes how far the
    /// bucket was looked at. Returns how many jobs are cold now, and how many bytes their payloads had; `None` = this
    /// instance does not lead the bucket.
    ///
    /// # Errors
    /// Redis is unavailable. The call may have been executed; it is safe to repeat it.
    pub async fn freeze(
        &self,
        bucket: u16,
        token: &str,
        looked_at: &[(String, String)],
        frozen: &[FrozenPayload],
    ) -> Result<Option<(u64, u64)>, StoreError> {
        let mut call = self
            .call_on_lock(&FREEZE, bucket, token)
            .arg(looked_at.len());
        for (slot, hints) in looked_at {
            call = call.arg(slot).arg(hints);
        }
        for payload in frozen {
            call = call
                .arg(payload.number)
                .arg(&payload.payload[..])
                .arg(&payload.reference.encode()[..]);
        }
        // Large payloads are in it.
        let (mut reply, _) = call.send_with_commands(Vec::new()).await?;
        match reply.is_lost()? {
            true => Ok(None),
            false => Ok(Some((reply.count()?, reply.count()?))),
        }
    }
}
