use tidegate_core::codec::INSTANT_MS;
use tidegate_core::limits::DURATION_MS_MAX;
use tidegate_core::v1::FieldChange;
use tidegate_core::v1::job::JobChange;
use tidegate_core::v1::publish::DueTime;
use tidegate_core::{Job, JobState, QueueKey};

use super::job_reference::JobReference;
use super::waiting::WaitingOutcome;
use crate::bodies::StoredRecord;
use crate::error::StoreError;
use crate::script::{LazyScript, script};
use crate::store::Store;

static CHANGE: LazyScript = script!("change");

/// The outcome of a change, with the job as it is now, without its attributes and body.
pub type ChangeOutcome = WaitingOutcome<Box<Job>>;

impl Store {
    /// Changes when a delayed or ready job is due, and its priority.
    ///
    /// # Errors
    /// Redis is unavailable. The job may have been changed; the call may be repeated. Or the job cannot be decoded.
    pub async fn change(
        &self,
        queue: &QueueKey,
        job: impl Into<JobReference>,
        change: JobChange,
    ) -> Result<ChangeOutcome, StoreError> {
        self.change_in(queue, job, None, change).await
    }

    /// Changes when a job is due that is delayed or ready, if it is in this state; `None` = in either of them.
    ///
    /// # Errors
    /// The errors of [`Self::change`].
    pub async fn change_in(
        &self,
        queue: &QueueKey,
        job: impl Into<JobReference>,
        state: Option<JobState>,
        change: JobChange,
    ) -> Result<ChangeOutcome, StoreError> {
        let job = job.into();
        let Some(bucket) = self.bucket_of_job(queue, job) else {
            return Ok(ChangeOutcome::AlreadyGone);
        };
        let due = change.due().map(|due| match due {
            DueTime::After(delay) => delay.as_ms().min(DURATION_MS_MAX),
            DueTime::At(instant) => INSTANT_MS + instant.as_ms().min(DURATION_MS_MAX),
        });
        let start_within_ms = match change.start_within {
            FieldChange::Keep => None,
            FieldChange::Reset => Some(0),
            FieldChange::Set(limit) => Some(limit.as_ms().min(DURATION_MS_MAX)),
        };
        let text = |ms: Option<u64>| ms.map(|ms| ms.to_string()).unwrap_or_default();
        let call = self.call_on_queue(&CHANGE, queue, bucket);
        let call = call.reference(job).arg(text(due));
        let call = call.arg(text(start_within_ms));
        let priority = change.priority.map(|it| it.get().to_string());
        let call = call.state(state).arg(priority.unwrap_or_default());
        let mut reply = call.send().await?;
        match reply.token() {
            "ok" => {
                let _now_ms = reply.count()?;
                let record = StoredRecord::read(bucket, reply.count()?, reply.bytes()?)?;
                let changed = record.without_payload().ok_or_else(|| {
                    StoreError::corrupt(format!("job {}: its extension is damaged", record.id))
                })?;
                Ok(ChangeOutcome::Done(Box::new(changed)))
            }
            "gone" => Ok(ChangeOutcome::AlreadyGone),
            "held" => Ok(ChangeOutcome::NotWaiting(reply.state()?)),
            _ => reply.unknown(),
        }
    }
}
