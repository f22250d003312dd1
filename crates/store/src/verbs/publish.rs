use redis::Cmd;
use tidegate_core::codec::{NewRecord, encode_new_job};
use tidegate_core::{InvalidJob, JobId, Lane, NewJob, QueueKey};
use tokio::sync::Semaphore;

use super::publish_reply::{PublishReply, StoredJob};
use crate::bodies::{SMALL_TRANSFER_BYTES_MAX, Uploads};
use crate::calls::SentCall;
use crate::error::{QUEUES, StoreError};
use crate::namespace_limits::full;
use crate::reply::Reply;
use crate::script::{LazyScript, script};
use crate::script_call::Call;
use crate::store::Store;
use crate::until_durable::Receipt;

static PUBLISH: LazyScript = script!("publish");

/// Maximum number of jobs of one publish call.
pub const PUBLISH_JOBS_MAX: usize = 64;

/// Payloads of more bytes than this are encoded on a thread for blocking work: compression takes milliseconds, which
/// would block a thread of the runtime.
const ENCODED_INLINE_BYTES: usize = 256 * 1024;

/// The publishes that are encoded on threads for blocking work at the same time. The others of a burst wait.
static ENCODERS: Semaphore = Semaphore::const_new(4);

/// The jobs of a call that publishes, as its script takes them.
pub(super) struct PublishCall {
    pub(super) records: Vec<NewRecord>,
    pub(super) uploads: Uploads,
    /// The size of the payloads that were not uploaded.
    pub(super) bytes: usize,
}

impl Store {
    /// Publishes 1 to [`PUBLISH_JOBS_MAX`] jobs, all or none of them, and returns their ids in order. The job
    /// `replaces`, if it is a job of this lane, is deleted in the same step.
    ///
    /// A job without delay joins the tail of the lane; other jobs are delayed until they are due.
    ///
    /// # Errors
    /// - [`StoreError::Invalid`]: the number of jobs, or a job, is invalid; nothing was sent.
    /// - [`crate::error::Unavailable::NotReady`]: the lane is closed, or Redis is not ready; nothing was published.
    /// - [`crate::error::Unavailable::Unreachable`]: the jobs may have been published or not.
    /// - Other reasons of [`StoreError::Unavailable`]: Redis refused the call; see [`StoreError::is_refusal`].
    /// - [`StoreError::Corrupt`]: the reply is invalid; the jobs may have been published.
    pub async fn publish<'a>(
        &self,
        lane: impl Into<Lane<'a>>,
        jobs: &[NewJob],
        replaces: Option<JobId>,
    ) -> Result<Vec<JobId>, StoreError> {
        let published = self.try_publish(lane, jobs, replaces, None).await?;
        let closed = || StoreError::not_ready("the lane is closed; nothing was published");
        let stored = published.stored().ok_or_else(closed)?;
        Ok(stored.iter().map(|job| job.id).collect())
    }

    /// Publishes as [`Store::publish`] does, unless the lane is closed, or would have more than `max_jobs` jobs. Jobs
    /// of all states count, dead ones too; a job that is replaced in the same step does not.
    ///
    /// # Errors
    /// The errors of [`Store::publish`], except for a closed lane.
    pub async fn try_publish<'a>(
        &self,
        lane: impl Into<Lane<'a>>,
        jobs: &[NewJob],
        replaces: Option<JobId>,
        max_jobs: Option<u64>,
    ) -> Result<PublishReply, StoreError> {
        if jobs.is_empty() || jobs.len() > PUBLISH_JOBS_MAX {
            return Err(InvalidJob::BatchSize(jobs.len()).into());
        }
        for job in jobs {
            job.check()?;
        }
        let lane = lane.into();
        let bucket = self.bucket_of(lane);
        let replaces = replaces.filter(|id| id.bucket() == bucket);
        let nonces: Vec<u16> = jobs.iter().map(|_| rand::random()).collect();
        let PublishCall {
            records,
            uploads,
            bytes,
        } = self.encode_call(jobs, &nonces, bucket).await?;
        let call = self
            .call_on_queue(&PUBLISH, lane.queue, bucket)
            .job(replaces);
        let call = call.arg(uploads.name);
        let call = match max_jobs {
            Some(jobs) => call.arg(jobs),
            None => call.arg(""),
        };
        let call = call.arg(self.max_queues(&lane.queue.namespace));
        let call = records.into_iter().fold(call, |call, record| {
            call.arg(&record.header).arg(record.payload)
        });
        let (mut reply, receipt) = self
            .send_publish(call, uploads.commands, bytes, (lane.queue, bucket))
            .await?;
        match reply.token() {
            "closed" => return Ok(PublishReply::LaneClosed),
            "full" => {
                let room = reply.count()?;
                return Ok(PublishReply::QueueFull { room });
            }
            _ => {}
        }
        let mut reply = reply.ok()?;
        let now_ms = reply.count()?;
        let numbers = numbers(&mut reply)?;
        if numbers.len() != nonces.len() {
            return Err(StoreError::corrupt(format!(
                "script stored {} of {} jobs",
                numbers.len(),
                nonces.len()
            )));
        }
        let ids = numbers.into_iter().zip(nonces);
        let ids = ids.map(|(number, nonce)| JobId::new(now_ms, bucket, number, nonce));
        let stored = ids.zip(jobs);
        let stored =
            stored.map(|(id, job)| Ok(StoredJob::created(id, job.delay_ms, job.run_at_ms())));
        Ok(PublishReply::Done {
            jobs: stored.collect(),
            receipt,
        })
    }

    /// Encodes the jobs of one call, and takes large payloads out of it.
    pub(super) async fn encode_call(
        &self,
        jobs: &[NewJob],
        nonces: &[u16],
        bucket: u16,
    ) -> Result<PublishCall, StoreError> {
        let mut records = self.encode(jobs, nonces, bucket).await?;
        let inline_limit_bytes = self.inner.config.inline_limit_bytes;
        let uploads = Uploads::take_from(&mut records, self.keys(bucket), inline_limit_bytes);
        Ok(PublishCall {
            bytes: records.iter().map(|record| record.payload.len()).sum(),
            records,
            uploads,
        })
    }

    /// Sends a call that publishes jobs behind its uploads.
    pub(super) async fn send_publish(
        &self,
        call: Call<'_>,
        uploads: Vec<Cmd>,
        bytes: usize,
        (queue, bucket): (&QueueKey, u16),
    ) -> Result<(Reply, Receipt), StoreError> {
        self.until_history_is_known(self.keys(bucket).prefix())
            .await?;
        let (reply, written) = if uploads.is_empty() && bytes <= SMALL_TRANSFER_BYTES_MAX {
            call.send_tracked().await?
        } else {
            call.send_with_commands(uploads).await?
        };
        match reply.token() {
            "missing" => {
                return Err(StoreError::not_ready(
                    "an uploaded payload expired before its job was stored; nothing was published",
                ));
            }
            "namespace_full" => {
                let limits = self.namespace_limits(&queue.namespace);
                return Err(full(QUEUES, limits.queues));
            }
            _ => {}
        }
        Ok((reply, receipt(written, bucket)?))
    }

    /// Encodes jobs; large ones on a thread for blocking work.
    async fn encode(
        &self,
        jobs: &[NewJob],
        nonces: &[u16],
        bucket: u16,
    ) -> Result<Vec<NewRecord>, StoreError> {
        let (inline, compress_from) = (
            self.inline_limit(bucket),
            self.inner.config.compress_from_bytes,
        );
        let encode = move |jobs: &[NewJob], nonces: &[u16]| {
            let jobs = jobs.iter().zip(nonces);
            jobs.map(|(job, nonce)| encode_new_job(job, *nonce, inline.of(job), compress_from))
                .collect()
        };
        let bytes: usize = jobs.iter().map(NewJob::payload_bytes).sum();
        if bytes <= ENCODED_INLINE_BYTES {
            return Ok(encode(jobs, nonces));
        }
        let (jobs, nonces) = (jobs.to_vec(), nonces.to_vec());
        let permit = ENCODERS.acquire().await;
        let encoding = tokio::task::spawn_blocking(move || {
            let _permit = permit;
            encode(&jobs, &nonces)
        });
        let stopped = |_| StoreError::not_ready("the process is stopping");
        encoding.await.map_err(stopped)
    }
}

/// The receipt of a call. A call with a reply has a server.
fn receipt(written: SentCall, bucket: u16) -> Result<Receipt, StoreError> {
    let server = written.server;
    Ok(Receipt {
        server: server.ok_or_else(|| StoreError::corrupt("a reply without a server"))?,
        bucket,
        sent_at: written.sent_at,
    })
}

/// The numbers of the published jobs. The reply contains runs of consecutive numbers: the first number and the length.
fn numbers(reply: &mut Reply) -> Result<Vec<u64>, StoreError> {
    let mut numbers = Vec::new();
    while reply.has_more() {
        let (first, count) = (reply.count()?, reply.count()?);
        let run = (first..).zip(0..count.min(PUBLISH_JOBS_MAX as u64));
        numbers.extend(run.map(|(number, _)| number));
    }
    Ok(numbers)
}
