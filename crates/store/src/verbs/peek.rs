use tidegate_core::codec::PAYLOAD_BYTES_MAX;
use tidegate_core::{Job, JobId, JobState, Lane, QueueKey};

use super::job_reference::JobReference;
use super::reserve::HINTS_PER_CALL;
use crate::bodies::{StoredRecord, carried_bytes};
use crate::error::StoreError;
use crate::script::{LazyScript, script};
use crate::script_call::Call;
use crate::store::Store;

static PEEK: LazyScript = script!("peek");

/// A job that was read without leasing it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PeekedJob {
    pub job: Job,
    /// The time on the clock of Redis, in ms since 1970.
    pub now_ms: u64,
}

enum PeekReply {
    Found(PeekedJob),
    Nothing,
    Again,
}

impl Store {
    /// The oldest ready job of a lane: the next one to be delivered.
    ///
    /// # Errors
    /// Redis is unavailable, or the record cannot be decoded.
    pub async fn peek_ready<'a>(
        &self,
        lane: impl Into<Lane<'a>>,
    ) -> Result<Option<PeekedJob>, StoreError> {
        self.peek_oldest(lane.into(), JobState::Ready).await
    }

    /// The oldest dead job of a lane.
    ///
    /// # Errors
    /// Redis is unavailable, or the record cannot be decoded.
    pub async fn peek_dead<'a>(
        &self,
        lane: impl Into<Lane<'a>>,
    ) -> Result<Option<PeekedJob>, StoreError> {
        self.peek_oldest(lane.into(), JobState::Dead).await
    }

    /// A job of a queue by its id or key, in any state.
    ///
    /// # Errors
    /// Redis is unavailable, or the record cannot be decoded.
    pub async fn peek_job(
        &self,
        queue: &QueueKey,
        job: impl Into<JobReference>,
    ) -> Result<Option<PeekedJob>, StoreError> {
        let job = job.into();
        let Some(bucket) = self.bucket_of_job(queue, job) else {
            return Ok(None);
        };
        let call = self.peek(queue, bucket).arg("job").reference(job);
        let call = call.arg(carried_bytes(1));
        match self.look(queue, bucket, call).await? {
            PeekReply::Found(peeked) => Ok(Some(peeked)),
            PeekReply::Nothing | PeekReply::Again => Ok(None),
        }
    }

    async fn peek_oldest(
        &self,
        lane: Lane<'_>,
        state: JobState,
    ) -> Result<Option<PeekedJob>, StoreError> {
        let bucket = self.bucket_of(lane);
        loop {
            let call = self
                .peek(lane.queue, bucket)
                .arg(state.as_str())
                .arg(HINTS_PER_CALL)
                .arg("")
                .arg("")
                .arg(carried_bytes(1));
            match self.look(lane.queue, bucket, call).await? {
                PeekReply::Found(peeked) if peeked.job.state == state => return Ok(Some(peeked)),
                PeekReply::Nothing => return Ok(None),
                // It was deleted, or left the list, before its body was fetched.
                PeekReply::Found(_) | PeekReply::Again => {}
            }
        }
    }

    fn peek(&self, queue: &QueueKey, bucket: u16) -> Call<'_> {
        self.call_on_queue(&PEEK, queue, bucket)
    }

    /// The record of a job as it is now, with its payload, read in one step; `None` if the job does not exist any more.
    /// A large payload blocks Redis for longer than a separate command would.
    pub(crate) async fn whole_record(
        &self,
        queue: &QueueKey,
        id: JobId,
    ) -> Result<Option<StoredRecord>, StoreError> {
        let call = self.peek(queue, id.bucket()).arg("job").job(Some(id));
        let mut reply = call.arg(PAYLOAD_BYTES_MAX).send().await?;
        match reply.token() {
            "none" => Ok(None),
            "ok" => {
                reply.count()?;
                let record = StoredRecord::read(id.bucket(), reply.count()?, reply.bytes()?)?;
                Ok(Some(record))
            }
            _ => reply.unknown(),
        }
    }

    async fn look(
        &self,
        queue: &QueueKey,
        bucket: u16,
        call: Call<'_>,
    ) -> Result<PeekReply, StoreError> {
        let mut reply = call.send().await?;
        match reply.token() {
            "ok" => {
                let now_ms = reply.count()?;
                let record = StoredRecord::read(bucket, reply.count()?, reply.bytes()?)?;
                let job = self.fetch_job(queue, record).await?;
                Ok(job.map_or(PeekReply::Again, |job| {
                    PeekReply::Found(PeekedJob { job, now_ms })
                }))
            }
            "none" => Ok(PeekReply::Nothing),
            "again" => Ok(PeekReply::Again),
            _ => reply.unknown(),
        }
    }
}
