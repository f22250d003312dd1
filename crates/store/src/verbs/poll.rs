use tidegate_core::QueueKey;

use crate::error::StoreError;
use crate::reply::Reply;
use crate::script::{LazyScript, script};
use crate::store::Store;

static POLL: LazyScript = script!("poll");

/// Maximum number of queues of [`Store::poll`] and [`Store::withdraw`]: it blocks Redis for less than 1 ms.
pub const POLL_QUEUES_MAX: usize = 200;

impl Store {
    /// Whether the parts of these queues in a bucket may have ready jobs, in the order of the queues. Where this is
    /// false, [`Store::reserve`] would have found none, and the process is registered: a doorbell follows. At most
    /// [`POLL_QUEUES_MAX`] queues.
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
        let mut reply = self.send_names(&POLL, bucket, queues).await?;
        while reply.has_more() {
            let place = usize::try_from(reply.count()?).unwrap_or(usize::MAX);
            if let Some(queue) = may_have_jobs.get_mut(place) {
                *queue = true;
            }
        }
        Ok(may_have_jobs)
    }

    /// Sends a script the id of the process and the names of queues in a bucket.
    pub(super) async fn send_names(
        &self,
        script: &'static LazyScript,
        bucket: u16,
        queues: impl Iterator<Item = &QueueKey>,
    ) -> Result<Reply, StoreError> {
        let keys = self.keys(bucket);
        let call = self.call_on_bucket(script, keys.queues(), keys).of_pump();
        let call = call.arg(self.inner.waiter.as_str());
        let call = queues.fold(call, |call, queue| call.arg(queue.to_string()));
        call.send().await?.ok()
    }
}
