use bytes::Bytes;
use tidegate_core::JobId;
use tidegate_core::codec::RecordParts;

use crate::bodies::CARRIED_BYTES_MAX;
use crate::error::StoreError;
use crate::script::{LazyScript, script};
use crate::store::Store;

static COLD_SCAN: LazyScript = script!("cold_scan");

/// Most far hints that one call looks at: it blocks Redis for up to 1 ms.
const HINTS_MAX: usize = 64;
/// Bytes of payloads in records, after which a call takes no further job.
const BYTES_MAX: usize = 256 * 1024;

/// The payload of a job that may go to the cold tier.
#[derive(Debug, Clone)]
pub struct WarmPayload {
    pub id: JobId,
    pub due_at_ms: u64,
    /// As it is in Redis, with its seal.
    pub payload: Bytes,
}

/// What a look at the far hints of a bucket has found.
#[derive(Debug, Clone, Default)]
pub struct WarmPayloads {
    /// How far the hints of some far slots have been looked at, for [`Store::freeze`].
    pub looked_at: Vec<(String, String)>,
    /// Whether payloads may not go: all of the bucket have come back, and it has not been opened again.
    pub is_closed: bool,
    pub payloads: Vec<WarmPayload>,
}

impl Store {
    /// Returns jobs of a bucket that are due later than `cold_after` from now and have a payload of at least
    /// `cold_payload_bytes_min`, some in each call: it looks at far hints that were added since the call before, and
    /// whose look was noted by [`Self::freeze`], in slots of up to `level`. `None` = this instance does not lead the bucket.
    ///
    /// # Errors
    /// Redis is unavailable, or a reply is invalid.
    pub async fn cold_scan(
        &self,
        bucket: u16,
        token: &str,
        level: u8,
    ) -> Result<Option<WarmPayloads>, StoreError> {
        let config = &self.inner.config;
        let after_ms = u64::try_from(config.cold_after.as_millis()).unwrap_or(u64::MAX);
        let call = self
            .call_on_lock(&COLD_SCAN, bucket, token)
            .arg(after_ms)
            .arg(config.cold_payload_bytes_min)
            .arg(HINTS_MAX)
            .arg(BYTES_MAX)
            .arg(CARRIED_BYTES_MAX)
            .arg(level);
        let mut reply = call.send().await?;
        if reply.token() == "closed" {
            return Ok(Some(WarmPayloads {
                is_closed: true,
                ..WarmPayloads::default()
            }));
        }
        if reply.is_lost()? {
            return Ok(None);
        }
        let mut looked_at = reply.texts()?.into_iter();
        let mut warm = WarmPayloads::default();
        while let (Some(slot), Some(hints)) = (looked_at.next(), looked_at.next()) {
            warm.looked_at.push((slot, hints));
        }
        let (mut outside, mut records) = (Vec::new(), Vec::new());
        while reply.has_more() {
            let number = reply.count()?;
            let Ok(parts) = RecordParts::split(&reply.bytes()?) else {
                continue;
            };
            if parts.payload.is_empty() {
                outside.push(parts.header.id(bucket, number));
            }
            records.push((number, parts));
        }
        let mut bodies = self.bodies_of(&outside).await?.into_iter();
        for (number, parts) in records {
            let payload = match parts.payload.is_empty() {
                true => bodies.next().flatten(),
                false => Some(parts.payload),
            };
            let Some(payload) = payload else { continue };
            if payload.len() >= config.cold_payload_bytes_min {
                warm.payloads.push(WarmPayload {
                    id: parts.header.id(bucket, number),
                    due_at_ms: parts.header.due_at_ms,
                    payload,
                });
            }
        }
        Ok(Some(warm))
    }
}
