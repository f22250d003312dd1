use tidegate_core::{Job, JobId, Lane, QueueKey, State};

use super::HINTS_PER_CALL;
use crate::bodies::{Incomplete, Record, carried_bytes};
use crate::script::{Call, LazyScript, script};
use crate::{Store, StoreError};

static PEEK: LazyScript = script!("peek");

/// A job that was looked at.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Peeked {
    /// The job as it is.
    pub job: Job,
    /// The clock of Redis, in ms.
    pub now_ms: u64,
}

enum Look {
    Found(Peeked),
    Nothing,
    Again,
}

impl Store {
    /// The job that the next consumer of a lane would get.
    ///
    /// # Errors
    /// Redis is unavailable, or the record cannot be decoded.
    pub async fn peek_ready<'a>(
        &self,
        lane: impl Into<Lane<'a>>,
    ) -> Result<Option<Peeked>, StoreError> {
        self.peek_oldest(lane.into(), State::Ready).await
    }

    /// The job that has been in the dead letter of a lane for longest.
    ///
    /// # Errors
    /// Redis is unavailable, or the record cannot be decoded.
    pub async fn peek_dead<'a>(
        &self,
        lane: impl Into<Lane<'a>>,
    ) -> Result<Option<Peeked>, StoreError> {
        self.peek_oldest(lane.into(), State::Dead).await
    }

    /// A job of a queue, whatever its state.
    ///
    /// # Errors
    /// Redis is unavailable, or the record cannot be decoded.
    pub async fn peek_job(
        &self,
        queue: &QueueKey,
        id: JobId,
    ) -> Result<Option<Peeked>, StoreError> {
        if !self.has_bucket_of(id) {
            return Ok(None);
        }
        let call = self.peek(queue, id.bucket()).arg("job").job(Some(id));
        let call = call.arg(carried_bytes(1));
        match self.look(queue, id.bucket(), call).await? {
            Look::Found(peeked) => Ok(Some(peeked)),
            Look::Nothing | Look::Again => Ok(None),
        }
    }

    async fn peek_oldest(
        &self,
        lane: Lane<'_>,
        state: State,
    ) -> Result<Option<Peeked>, StoreError> {
        let bucket = self.bucket_of(lane);
        loop {
            let call = self
                .peek(lane.queue, bucket)
                .arg(state.word())
                .arg(HINTS_PER_CALL)
                .arg("")
                .arg("")
                .arg(carried_bytes(1));
            match self.look(lane.queue, bucket, call).await? {
                Look::Found(peeked) => return Ok(Some(peeked)),
                Look::Nothing => return Ok(None),
                Look::Again => {}
            }
        }
    }

    fn peek(&self, queue: &QueueKey, bucket: u16) -> Call<'_> {
        self.call_on_queue(&PEEK, queue, bucket)
    }

    /// Whether a job is gone.
    pub(crate) async fn is_gone(&self, queue: &QueueKey, id: JobId) -> Result<bool, StoreError> {
        let call = self.peek(queue, id.bucket());
        let call = call.arg("job").job(Some(id)).arg(0);
        let reply = call.send().await?;
        match reply.token() {
            "none" => Ok(true),
            "ok" => Ok(false),
            _ => reply.unknown(),
        }
    }

    async fn look(
        &self,
        queue: &QueueKey,
        bucket: u16,
        call: Call<'_>,
    ) -> Result<Look, StoreError> {
        let mut reply = call.send().await?;
        match reply.token() {
            "ok" => {
                let now_ms = reply.count()?;
                let record = Record::read(bucket, reply.count()?, reply.bytes()?)?;
                match self.complete(queue, vec![record]).await?.pop() {
                    Some(Ok(job)) => Ok(Look::Found(Peeked { job, now_ms })),
                    Some(Err(Incomplete::Corrupt(how))) => Err(StoreError::corrupt(how)),
                    Some(Err(Incomplete::Gone)) | None => Ok(Look::Again),
                }
            }
            "none" => Ok(Look::Nothing),
            "again" => Ok(Look::Again),
            _ => reply.unknown(),
        }
    }
}
