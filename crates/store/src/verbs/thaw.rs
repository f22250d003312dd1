use bytes::Bytes;
use tidegate_core::ColdReference;

use crate::error::StoreError;
use crate::script::{LazyScript, script};
use crate::store::Store;

static THAW: LazyScript = script!("thaw");

impl Store {
    /// Puts payloads back into the jobs that refer to them. Returns how many; `None` = this instance does not lead the
    /// bucket.
    ///
    /// # Errors
    /// Redis is unavailable, or full. The call may have been executed; it is safe to repeat it.
    pub async fn thaw(
        &self,
        bucket: u16,
        token: &str,
        payloads: &[(u64, ColdReference, Bytes)],
    ) -> Result<Option<u64>, StoreError> {
        let mut call = self
            .call_on_lock(&THAW, bucket, token)
            .arg(self.inner.config.inline_limit_bytes);
        for (number, reference, payload) in payloads {
            call = call
                .arg(*number)
                .arg(&reference.encode()[..])
                .arg(&payload[..]);
        }
        // Large payloads are in it.
        let (mut reply, _) = call.send_with_commands(Vec::new()).await?;
        match reply.is_lost()? {
            true => Ok(None),
            false => Ok(Some(reply.count()?)),
        }
    }
}
