use tidegate_core::QueueKey;

use crate::error::StoreError;
use crate::script::{LazyScript, script};
use crate::script_call::Call;
use crate::store::Store;

static POLL: LazyScript = script!("poll");

/// Maximum number of queues of [`Store::poll`] and [`Store::withdraw`]: it blocks Redis for less than 1 ms.
pub const POLL_QUEUES_MAX: usize = 200;

/// A queue that consumers wait for.
#[derive(Debug, Clone, Copy)]
pub struct PolledQueue<'a> {
    pub queue: &'a QueueKey,
    /// As in [`ReserveOptions`](crate::ReserveOptions).
    pub group_max_running: Option<u64>,
}

impl<'a> From<&'a QueueKey> for PolledQueue<'a> {
    fn from(queue: &'a QueueKey) -> Self {
        Self {
            queue,
            group_max_running: None,
        }
    }
}

impl Store {
    /// Whether the parts of these queues in a bucket may have ready jobs, in the order of the queues. Where this is
    /// false, [`Store::reserve_with`] with the same limit would have found none, and the process is registered: a
    /// doorbell follows. At most [`POLL_QUEUES_MAX`] queues.
    ///
    /// # Errors
    /// Redis is unavailable.
    pub async fn poll<'a>(
        &self,
        bucket: u16,
        queues: impl ExactSizeIterator<Item: Into<PolledQueue<'a>>>,
    ) -> Result<Vec<bool>, StoreError> {
        let mut may_have_jobs = vec![false; queues.len()];
        if may_have_jobs.is_empty() {
            return Ok(may_have_jobs);
        }
        let call = self.call_of_waiter(&POLL, bucket);
        let call = queues.map(Into::into).fold(call, |call, polled| {
            let call = call.arg(polled.queue.to_string());
            match polled.group_max_running {
                Some(jobs) => call.arg(jobs),
                None => call.arg(""),
            }
        });
        let mut reply = call.send().await?.ok()?;
        while reply.has_more() {
            let place = usize::try_from(reply.count()?).unwrap_or(usize::MAX);
            if let Some(queue) = may_have_jobs.get_mut(place) {
                *queue = true;
            }
        }
        Ok(may_have_jobs)
    }

    /// A call on a bucket with the id of the process.
    pub(super) fn call_of_waiter(&self, script: &'static LazyScript, bucket: u16) -> Call<'_> {
        let keys = self.keys(bucket);
        let call = self.call_on_bucket(script, keys.queues(), keys).of_pump();
        call.arg(self.inner.waiter.as_str())
    }
}
