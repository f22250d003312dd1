use tidegate_core::{JobId, QueueKey};

use super::job_reference::JobReference;
use crate::error::StoreError;
use crate::script::{LazyScript, script};
use crate::store::Store;

static REPLACE_DONE: LazyScript = script!("replace_done");

impl Store {
    /// Takes the key from a job that is done, once another lane has stored the job that replaces it. The done job is
    /// deleted, unless a client waits for its result. Any other job stays as it is.
    ///
    /// # Errors
    /// Redis is unavailable. The job may have lost its key; the call may be repeated.
    pub async fn replace_done(&self, queue: &QueueKey, id: JobId) -> Result<(), StoreError> {
        let job = JobReference::from(id);
        let Some(bucket) = self.bucket_of_job(queue, job) else {
            return Ok(());
        };
        let call = self.call_on_queue(&REPLACE_DONE, queue, bucket);
        call.reference(job).send().await?.ok()?;
        Ok(())
    }
}
