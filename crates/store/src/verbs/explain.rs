use bytes::Bytes;
use tidegate_core::{Job, JobState, QueueKey};

use super::job_reference::JobReference;
use crate::bodies::{JobReadError, StoredRecord, carried_bytes};
use crate::error::StoreError;
use crate::script::{LazyScript, script};
use crate::store::Store;

static EXPLAIN: LazyScript = script!("explain");

/// Maximum number of hints that one call reads to count the jobs before a ready one: they hold Redis for less than 1
/// ms.
const HINTS_MAX: usize = 200;
/// Maximum number of these calls. Another one follows if all hints of those before it were stale.
const CALLS_MAX: usize = 10;

/// How many ready jobs are before a ready job in its lane, at least and at most.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct JobsBefore {
    /// So many were counted.
    pub least: u64,
    /// The same if all were counted, else all other ready jobs of the lane.
    pub most: u64,
}

/// A job, and the facts that decide when it is delivered.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct JobSurroundings {
    /// The job. Its attributes and body are empty if they are damaged, or were not read.
    pub job: Job,
    /// Whether its record or payload is damaged. A payload of more than 4 KiB is not checked.
    pub is_damaged: bool,
    /// Whether its payload is in the cold tier.
    pub is_cold: bool,
    /// Why its payload cannot be read from the cold tier; `None` = it can, or it is in Redis.
    pub unavailable: Option<String>,
    /// The time on the clock of Redis, in ms since 1970.
    pub now_ms: u64,
    /// The number of ready jobs of its priority before a ready one.
    pub before: JobsBefore,
    /// The number of jobs of a higher priority before a ready one. Of each priority the first 200 hints are checked; others
    /// count, also stale ones.
    pub higher_priority: u64,
    /// Whether consumers wait for the queue. While there are ready jobs they need not: they are busy or get them.
    pub is_waited_for: bool,
    /// The number of leased jobs of the queue in this lane.
    pub leased: u64,
    /// The number of other lines that take turns with the line of a ready job: groups with jobs of its priority.
    pub other_lines: u64,
    /// The number of leased jobs of its group in this lane; `None` without a group.
    pub leased_of_group: Option<u64>,
    /// Whether a live pump leads the bucket.
    pub has_pump: bool,
}

/// The job of a reply, with as much of its payload as is needed.
struct ExplainedJob {
    job: Job,
    is_damaged: bool,
    is_cold: bool,
    unavailable: Option<String>,
}

impl ExplainedJob {
    /// A job whose payload is in Redis.
    const fn new(job: Job, is_damaged: bool) -> Self {
        Self {
            job,
            is_damaged,
            is_cold: false,
            unavailable: None,
        }
    }
}

/// The reply of one call.
struct Explained {
    now_ms: u64,
    number: u64,
    record: Bytes,
    body_bytes: Option<u64>,
    is_found: bool,
    before: u64,
    higher_priority: u64,
    ready: u64,
    leased: u64,
    is_waited_for: bool,
    pump: String,
    other_lines: u64,
    leased_of_group: Option<u64>,
}

impl Store {
    /// A job by its id or key, and the facts that decide when it is delivered; `None` if there is no such job. Large
    /// bodies are not read, except for the attributes of a job with a key that is named by its id: the key is one of
    /// them.
    ///
    /// # Errors
    /// Redis is unavailable.
    pub async fn explain(
        &self,
        queue: &QueueKey,
        job: impl Into<JobReference>,
    ) -> Result<Option<JobSurroundings>, StoreError> {
        let reference = job.into();
        let Some(bucket) = self.bucket_of_job(queue, reference) else {
            return Ok(None);
        };
        let Some((found, before)) = self.explained(queue, bucket, reference).await? else {
            return Ok(None);
        };
        let read = self.explained_job(queue, bucket, reference, &found).await?;
        let Some(read) = read else {
            return Ok(None);
        };
        let has_pump = match found.pump.is_empty() {
            true => false,
            false => self.membership_end_ms(bucket, &found.pump).await? > Some(found.now_ms),
        };
        Ok(Some(JobSurroundings {
            job: read.job,
            is_damaged: read.is_damaged,
            is_cold: read.is_cold,
            unavailable: read.unavailable,
            now_ms: found.now_ms,
            before,
            higher_priority: found.higher_priority,
            is_waited_for: found.is_waited_for,
            leased: found.leased,
            other_lines: found.other_lines,
            leased_of_group: found.leased_of_group,
            has_pump,
        }))
    }

    /// The reply of the last call, and how many jobs are before a ready job.
    async fn explained(
        &self,
        queue: &QueueKey,
        bucket: u16,
        job: JobReference,
    ) -> Result<Option<(Explained, JobsBefore)>, StoreError> {
        let mut counted = 0;
        for calls in 1.. {
            let at = (calls - 1) * HINTS_MAX;
            let Some(found) = self.explain_from(queue, bucket, job, at).await? else {
                return Ok(None);
            };
            counted += found.before;
            if found.is_found || counted > 0 || calls == CALLS_MAX || found.ready <= 1 {
                let others = found.ready.saturating_sub(1 + found.higher_priority);
                let most = if found.is_found {
                    counted
                } else {
                    counted.max(others)
                };
                let before = JobsBefore {
                    least: counted,
                    most,
                };
                return Ok(Some((found, before)));
            }
        }
        Ok(None)
    }

    async fn explain_from(
        &self,
        queue: &QueueKey,
        bucket: u16,
        job: JobReference,
        at: usize,
    ) -> Result<Option<Explained>, StoreError> {
        let call = self.call_on_queue(&EXPLAIN, queue, bucket).reference(job);
        let call = call.arg(carried_bytes(1)).arg(at).arg(HINTS_MAX);
        let mut reply = call.send().await?;
        match reply.token() {
            "none" => return Ok(None),
            "ok" => {}
            _ => return reply.unknown(),
        }
        Ok(Some(Explained {
            now_ms: reply.count()?,
            number: reply.count()?,
            record: reply.bytes()?,
            body_bytes: reply.optional()?,
            is_found: reply.flag()?,
            before: reply.count()?,
            higher_priority: reply.count()?,
            ready: u64::try_from(reply.integer()?).unwrap_or(0),
            leased: u64::try_from(reply.integer()?).unwrap_or(0),
            is_waited_for: reply.flag()?,
            pump: String::from_utf8_lossy(&reply.bytes()?).into_owned(),
            other_lines: reply.count()?,
            leased_of_group: reply.optional()?,
        }))
    }

    /// The job; `None` if it is gone by now.
    async fn explained_job(
        &self,
        queue: &QueueKey,
        bucket: u16,
        reference: JobReference,
        found: &Explained,
    ) -> Result<Option<ExplainedJob>, StoreError> {
        let damaged = || {
            let job = StoredRecord::damaged_job(bucket, found.number, &found.record);
            Ok(Some(ExplainedJob::new(job?, true)))
        };
        let Ok(record) = StoredRecord::read(bucket, found.number, found.record.clone()) else {
            return damaged();
        };
        let Some(without_payload) = record.without_payload() else {
            return damaged();
        };
        let is_cold = record.is_cold();
        let extension = without_payload.extension.as_deref();
        let has_key = extension.is_some_and(|extension| extension.key_hash.is_some());
        let is_key_known = !has_key || matches!(reference, JobReference::Key(..));
        let is_damaged = found.body_bytes == Some(0) && without_payload.state != JobState::Done;
        if record.is_without_payload() && !is_cold && (is_key_known || is_damaged) {
            return Ok(Some(ExplainedJob::new(without_payload, is_damaged)));
        }
        let read = self.fetch_bodies(queue, vec![record]).await?.pop();
        let explained = match read {
            Some(Ok(job)) => ExplainedJob::new(job, false),
            Some(Err(JobReadError::Corrupt(_))) => ExplainedJob::new(without_payload, true),
            Some(Err(JobReadError::Unavailable(why))) => ExplainedJob {
                unavailable: Some(why),
                ..ExplainedJob::new(without_payload, false)
            },
            Some(Err(JobReadError::Gone)) | None => return Ok(None),
        };
        Ok(Some(ExplainedJob {
            is_cold,
            ..explained
        }))
    }
}
