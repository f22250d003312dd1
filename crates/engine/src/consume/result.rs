//! How jobs have ended, and waiting for that.

use std::time::Duration;

use tidegate_core::{JobId, QueueKey};
use tidegate_store::{JobEnd, JobReference};
use tokio::time::{Instant, sleep_until};

use crate::error::EngineError;
use crate::metrics::storage_failure::record_store_error;
use crate::pool::Pool;

/// How often a job is read that a client waits for, in case the message of its end was lost.
const LOOK_INTERVAL: Duration = Duration::from_secs(2);

impl Pool {
    /// Returns how a job has ended; waits for that until `until`, or until the process stops. A job that is replaced
    /// while it runs has not ended.
    ///
    /// # Errors
    /// Redis gave no answer to the last look.
    pub async fn result(
        &self,
        queue: &QueueKey,
        job: JobReference,
        until: Instant,
    ) -> Result<JobEnd, EngineError> {
        if let (JobReference::Id(id), None) = (job, &self.target) {
            return self.wait_for_end(queue, id, until).await;
        }
        for pool in self.with_target() {
            let look = |job| pool.store.result(queue, job);
            match pool.in_lanes(queue, job, look).await? {
                JobEnd::NotEnded { id, .. } if Instant::now() < until => {
                    return pool.wait_for_end(queue, id, until).await;
                }
                JobEnd::AlreadyGone => {}
                ended => return Ok(ended),
            }
        }
        Ok(JobEnd::AlreadyGone)
    }

    async fn wait_for_end(
        &self,
        queue: &QueueKey,
        id: JobId,
        until: Instant,
    ) -> Result<JobEnd, EngineError> {
        let watch = self.ends.watch(id);
        loop {
            // Created before the look, so that no message is missed.
            let notified = watch.notified();
            let is_last = Instant::now() >= until || self.ends.closed.is_cancelled();
            match self.store.result(queue, id).await {
                Ok(JobEnd::NotEnded { .. }) if !is_last => {}
                Err(error) if !is_last => record_store_error(&error),
                end => return Ok(end?),
            }
            tokio::select! {
                () = notified => {}
                () = sleep_until(until.min(Instant::now() + LOOK_INTERVAL)) => {}
                () = self.ends.closed.cancelled() => {}
            }
        }
    }
}
