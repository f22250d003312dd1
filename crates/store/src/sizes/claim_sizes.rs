use std::time::Duration;

use tidegate_core::keys;

use super::{
    PAUSE_PER_1000_QUEUES, SharedSizes, SizesAnswer, SizesClaim, SizesVersion, kept_ms,
    milliseconds,
};
use crate::error::StoreError;
use crate::script::{LazyScript, script};

static CLAIM_SIZES: LazyScript = script!("claim_sizes");

impl SharedSizes {
    /// Returns the stored sizes if they are at most `refresh` old, or 2.4 s for each 1,000 queues; otherwise one caller may
    /// collect them within `lease`. Sizes with the id `damaged` do not count as recent.
    ///
    /// # Errors
    /// Redis is unavailable, or does not take writes.
    pub async fn claim(
        &self,
        refresh: Duration,
        lease: Duration,
        damaged: Option<&str>,
    ) -> Result<SizesAnswer, StoreError> {
        let id = format!("{:016x}", rand::random::<u64>());
        let call = self.store.call(&CLAIM_SIZES, keys::SIZES.to_owned());
        let call = call.arg(&id).arg(milliseconds(refresh));
        let call = call.arg(milliseconds(PAUSE_PER_1000_QUEUES));
        let call = call.arg(milliseconds(lease)).arg(kept_ms(refresh, 0));
        let mut reply = call.arg(damaged.unwrap_or_default()).send().await?;
        match reply.token() {
            "recent" => Ok(SizesAnswer::Recent(SizesVersion {
                id: String::from_utf8_lossy(&reply.bytes()?).into_owned(),
                side: String::from_utf8_lossy(&reply.bytes()?).into_owned(),
                pages: reply.count()?,
                age: Duration::from_millis(reply.count()?),
            })),
            "claimed" => {
                let side = String::from_utf8_lossy(&reply.bytes()?).into_owned();
                Ok(SizesAnswer::Claimed(SizesClaim { id, side }))
            }
            "busy" => Ok(SizesAnswer::Busy),
            _ => reply.unknown(),
        }
    }
}
