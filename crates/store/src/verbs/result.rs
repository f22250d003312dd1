use tidegate_core::{Job, JobId, JobState, QueueKey};

use super::job_reference::JobReference;
use crate::bodies::{StoredRecord, carried_bytes};
use crate::error::StoreError;
use crate::script::{LazyScript, script};
use crate::store::Store;

static RESULT: LazyScript = script!("result");

/// How a job has ended.
#[derive(Debug, Clone, PartialEq, Eq)]
#[must_use]
pub enum JobEnd {
    /// It is done. Its body is the result; empty without attributes = there is none.
    Done(Box<Job>),
    Dead(JobId),
    /// It has not ended. Its end will be notified ([`crate::Doorbell::Ended`]).
    NotEnded {
        id: JobId,
        state: JobState,
    },
    /// There is no such job in this queue: it was deleted, or is not kept any more.
    AlreadyGone,
}

impl Store {
    /// Returns how a job has ended. If it has not, its end will be notified.
    ///
    /// # Errors
    /// Redis is unavailable, or the result cannot be decoded. The call may be repeated.
    pub async fn result(
        &self,
        queue: &QueueKey,
        job: impl Into<JobReference>,
    ) -> Result<JobEnd, StoreError> {
        let job = job.into();
        let Some(bucket) = self.bucket_of_job(queue, job) else {
            return Ok(JobEnd::AlreadyGone);
        };
        let call = self.call_on_queue(&RESULT, queue, bucket).reference(job);
        let mut reply = call.arg(carried_bytes(1)).send().await?;
        match reply.token() {
            "done" => {
                let _now_ms = reply.count()?;
                let record = StoredRecord::read(bucket, reply.count()?, reply.bytes()?)?;
                let job = self.fetch_job(queue, record).await?;
                Ok(job.map_or(JobEnd::AlreadyGone, |job| JobEnd::Done(Box::new(job))))
            }
            "dead" => Ok(JobEnd::Dead(reply.job_id(bucket)?)),
            "waits" => Ok(JobEnd::NotEnded {
                state: reply.state()?,
                id: reply.job_id(bucket)?,
            }),
            "gone" => Ok(JobEnd::AlreadyGone),
            _ => reply.unknown(),
        }
    }
}
