use tidegate_core::codec::{NewRecord, encode_new_job};
use tidegate_core::{InvalidJob, JobId, Lane, NewJob};

use crate::bodies::{SMALL_TRANSFER_BYTES_MAX, Uploads};
use crate::calls::SentCall;
use crate::error::StoreError;
use crate::reply::Reply;
use crate::script::{LazyScript, script};
use crate::store::Store;
use crate::until_durable::Receipt;

static PUBLISH: LazyScript = script!("publish");

/// Maximum number of jobs of one publish call.
pub const PUBLISH_JOBS_MAX: usize = 64;

/// Payloads of more bytes than this are encoded on a thread for blocking work: compression takes milliseconds, which
/// would block a thread of the runtime.
const ENCODED_INLINE_BYTES: usize = 1024 * 1024;

/// Jobs that are stored.
#[derive(Debug, Clone)]
pub struct PublishedJobs {
    /// The ids of the jobs, in the order of the jobs.
    pub ids: Vec<JobId>,
    /// For [`Store::until_durable`].
    pub receipt: Receipt,
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
        let published = self.publish_unless_closed(lane, jobs, replaces).await?;
        let closed = || StoreError::not_ready("the lane is closed; nothing was published");
        Ok(published.ok_or_else(closed)?.ids)
    }

    /// Publishes as [`Store::publish`] does. Returns also a receipt for [`Store::until_durable`]; `None` if the lane is
    /// closed, and so nothing was published.
    ///
    /// # Errors
    /// Those of [`Store::publish`], except for a closed lane.
    pub async fn publish_unless_closed<'a>(
        &self,
        lane: impl Into<Lane<'a>>,
        jobs: &[NewJob],
        replaces: Option<JobId>,
    ) -> Result<Option<PublishedJobs>, StoreError> {
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
        let mut records = self.encode(jobs, &nonces).await?;
        let keys = self.keys(bucket);
        let uploads = Uploads::take_from(&mut records, keys, self.inner.config.inline_limit_bytes);
        let bytes: usize = records.iter().map(|record| record.payload.len()).sum();
        let call = self
            .call_on_queue(&PUBLISH, lane.queue, bucket)
            .job(replaces);
        let call = records
            .into_iter()
            .fold(call.arg(uploads.name), |call, record| {
                call.arg(&record.header).arg(record.payload)
            });
        self.until_history_is_known(keys.prefix()).await?;
        let (reply, written) = if uploads.commands.is_empty() && bytes <= SMALL_TRANSFER_BYTES_MAX {
            call.send_tracked().await?
        } else {
            call.send_with_commands(uploads.commands).await?
        };
        match reply.token() {
            "closed" => return Ok(None),
            "missing" => {
                return Err(StoreError::not_ready(
                    "an uploaded payload expired before its job was stored; nothing was published",
                ));
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
        Ok(Some(PublishedJobs {
            ids: ids.collect(),
            receipt: receipt(written, bucket)?,
        }))
    }

    /// Encodes jobs; large ones on a thread for blocking work.
    async fn encode(&self, jobs: &[NewJob], nonces: &[u16]) -> Result<Vec<NewRecord>, StoreError> {
        let config = &self.inner.config;
        let (inline, compress_from) = (config.inline_limit_bytes, config.compress_from_bytes);
        let encode = move |jobs: &[NewJob], nonces: &[u16]| {
            let jobs = jobs.iter().zip(nonces);
            jobs.map(|(job, nonce)| encode_new_job(job, *nonce, inline, compress_from))
                .collect()
        };
        let bytes: usize = jobs.iter().map(NewJob::payload_bytes).sum();
        if bytes <= ENCODED_INLINE_BYTES {
            return Ok(encode(jobs, nonces));
        }
        let (jobs, nonces) = (jobs.to_vec(), nonces.to_vec());
        let encoding = tokio::task::spawn_blocking(move || encode(&jobs, &nonces));
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
