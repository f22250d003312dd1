use tidegate_core::QueueKey;

use crate::error::StoreError;
use crate::script::{LazyScript, script};
use crate::store::Store;

static WITHDRAW: LazyScript = script!("withdraw");

impl Store {
    /// Ends the registrations of the process with these queues in a bucket. Where jobs are ready, another process is
    /// rung in its place. At most [`crate::POLL_QUEUES_MAX`] queues.
    ///
    /// # Errors
    /// Redis is unavailable.
    pub async fn withdraw(
        &self,
        bucket: u16,
        queues: impl ExactSizeIterator<Item = &QueueKey>,
    ) -> Result<(), StoreError> {
        let call = self.call_of_waiter(&WITHDRAW, bucket);
        let call = queues.fold(call, |call, queue| call.arg(queue.to_string()));
        call.send().await?.ok()?;
        Ok(())
    }
}
