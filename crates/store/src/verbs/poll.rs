use tidegate_core::QueueKey;

use crate::error::StoreError;
use crate::script::{LazyScript, script};
use crate::store::Store;

static POLL: LazyScript = script!("poll");

/// Maximum number of queues that [`Store::poll`] checks: it blocks Redis for less than 1 ms.
pub const POLL_QUEUES_MAX: usize = 200;

impl Store {
    /// Whether the parts of these queues in a bucket may have ready jobs, in the order of the queues. Where this is
    /// false, [`Store::reserve`] would have found none. At most [`POLL_QUEUES_MAX`] queues.
    ///
    /// # Errors
    /// Redis is unavailable.
    pub async fn poll(
        &self,
        bucket: u16,
        queues: impl ExactSizeIterator<Item = &QueueKey>,
    ) -> Result<Vec<bool>, StoreError> {
        let mut may_have_jobs = vec![false; queues.len()];
        if may_have_jobs.is_empty() {
            return Ok(may_have_jobs);
        }
        let keys = self.keys(bucket);
        let call = self.call_on_bucket(&POLL, keys.queues(), keys).of_pump();
        let call = queues.fold(call, |call, queue| call.arg(queue.to_string()));
        let mut reply = call.send().await?.ok()?;
        while reply.has_more() {
            let place = usize::try_from(reply.count()?).unwrap_or(usize::MAX);
            if let Some(queue) = may_have_jobs.get_mut(place) {
                *queue = true;
            }
        }
        Ok(may_have_jobs)
    }
}
