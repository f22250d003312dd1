use tidegate_core::{Job, QueueKey};

use super::job_reference::JobReference;
use crate::bodies::{JobReadError, StoredRecord, carried_bytes};
use crate::error::StoreError;
use crate::script::{LazyScript, script};
use crate::store::Store;

static EXPLAIN: LazyScript = script!("explain");

/// Maximum number of hints that are read to count the jobs before a ready one: they hold Redis for less than 1 ms.
const AHEAD_MAX: usize = 100;

/// A job, and what decides when it is delivered.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct JobSurroundings {
    /// The job. Its attributes and body are empty if they are damaged.
    pub job: Job,
    /// Whether its payload is damaged.
    pub is_damaged: bool,
    /// The time on the clock of Redis, in ms since 1970.
    pub now_ms: u64,
    /// The number of ready jobs before a ready one in its lane; `None` = more than 100.
    pub ahead: Option<u64>,
    /// Whether consumers wait for the queue. While there are ready jobs they need not: they are busy or get them.
    pub is_waited_for: bool,
    /// The number of leased jobs of the queue in this lane.
    pub leased: u64,
    /// Whether a live pump leads the bucket.
    pub has_pump: bool,
}

impl Store {
    /// A job by its id or key, and what decides when it is delivered; `None` if there is no such job.
    ///
    /// # Errors
    /// Redis is unavailable.
    pub async fn explain(
        &self,
        queue: &QueueKey,
        job: impl Into<JobReference>,
    ) -> Result<Option<JobSurroundings>, StoreError> {
        let job = job.into();
        let Some(bucket) = self.bucket_of_job(queue, job) else {
            return Ok(None);
        };
        let call = self.call_on_queue(&EXPLAIN, queue, bucket).reference(job);
        let mut reply = call.arg(carried_bytes(1)).arg(AHEAD_MAX).send().await?;
        match reply.token() {
            "none" => return Ok(None),
            "ok" => {}
            _ => return reply.unknown(),
        }
        let now_ms = reply.count()?;
        let record = StoredRecord::read(bucket, reply.count()?, reply.bytes()?)?;
        let (ahead, is_waited_for, leased) = (reply.optional()?, reply.flag()?, reply.integer()?);
        let pump = String::from_utf8_lossy(&reply.bytes()?).into_owned();
        let without_payload = record.without_payload();
        let read = self.fetch_bodies(queue, vec![record]).await?.pop();
        let (job, is_damaged) = match (read, without_payload) {
            (Some(Ok(job)), _) => (job, false),
            (Some(Err(JobReadError::Corrupt(_))), Some(job)) => (job, true),
            _ => return Ok(None),
        };
        let has_pump = match pump.is_empty() {
            true => false,
            false => self.membership_end_ms(bucket, &pump).await? > Some(now_ms),
        };
        Ok(Some(JobSurroundings {
            job,
            is_damaged,
            now_ms,
            ahead,
            is_waited_for,
            leased: u64::try_from(leased).unwrap_or(0),
            has_pump,
        }))
    }
}
