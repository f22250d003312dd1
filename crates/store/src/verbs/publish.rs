use tidegate_core::codec::{NewRecord, encode_new_job};
use tidegate_core::{InvalidJob, JobId, Lane, NewJob};

use crate::bodies::{SMALL_TRANSFER_BYTES_MAX, Uploads};
use crate::reply::Reply;
use crate::script::{LazyScript, Written, script};
use crate::{Receipt, Store, StoreError};

static PUBLISH: LazyScript = script!("publish");

/// The most jobs that one call publishes.
pub const PUBLISH_JOBS_MAX: usize = 64;

/// More bytes of payloads than this take milliseconds to compress, in which a thread of the runtime would serve
/// no request.
const ENCODED_INLINE_BYTES: usize = 1024 * 1024;

/// Jobs that were stored.
#[derive(Debug, Clone)]
pub struct Published {
    /// Their ids, in order.
    pub ids: Vec<JobId>,
    /// For [`Store::until_durable`].
    pub receipt: Receipt,
}

impl Store {
    /// Publishes 1 to [`PUBLISH_JOBS_MAX`] jobs, all or none of them, and answers their ids in order.
    /// The job `replaces`, if it is a job of this lane, is deleted in the same step.
    ///
    /// A job due at once joins the tail of the lane; the others wait for their time.
    ///
    /// # Errors
    /// [`StoreError::Invalid`] before anything was sent; the lane is closed; otherwise Redis is unavailable, and the
    /// jobs may or may not have been published when it is [`crate::Unavailable::Away`].
    pub async fn publish<'a>(
        &self,
        lane: impl Into<Lane<'a>>,
        jobs: &[NewJob],
        replaces: Option<JobId>,
    ) -> Result<Vec<JobId>, StoreError> {
        let published = self.publish_unless_closed(lane, jobs, replaces).await?;
        let closed =
            || StoreError::not_ready("the lane is closed; nothing was published".to_owned());
        Ok(published.ok_or_else(closed)?.ids)
    }

    /// Publishes as [`Store::publish`] does, with a receipt for callers who then wait until the jobs are safe. Answers
    /// nothing if the lane is closed: then nothing was published.
    ///
    /// # Errors
    /// Those of [`Store::publish`].
    pub async fn publish_unless_closed<'a>(
        &self,
        lane: impl Into<Lane<'a>>,
        jobs: &[NewJob],
        replaces: Option<JobId>,
    ) -> Result<Option<Published>, StoreError> {
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
            call.write().await?
        } else {
            call.write_behind(uploads.commands).await?
        };
        match reply.token() {
            "closed" => return Ok(None),
            "missing" => {
                let detail = "a payload was gone before its job was stored; nothing was published";
                return Err(StoreError::not_ready(detail.to_owned()));
            }
            _ => {}
        }
        let mut reply = reply.ok()?;
        let now_ms = reply.count()?;
        let numbers = numbers(&mut reply)?;
        if numbers.len() != nonces.len() {
            return Err(StoreError::corrupt(format!(
                "script numbered {} jobs of {}",
                numbers.len(),
                nonces.len()
            )));
        }
        let ids = numbers.into_iter().zip(nonces);
        let ids = ids.map(|(number, nonce)| JobId::new(now_ms, bucket, number, nonce));
        Ok(Some(Published {
            ids: ids.collect(),
            receipt: receipt(written, bucket)?,
        }))
    }

    /// The records of jobs. Many bytes are compressed on a thread for blocking work.
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
        let stopped = |_| StoreError::not_ready("the process is stopping".to_owned());
        encoding.await.map_err(stopped)
    }
}

/// A call that was answered has been somewhere.
fn receipt(written: Written, bucket: u16) -> Result<Receipt, StoreError> {
    let server = written.server;
    Ok(Receipt {
        server: server.ok_or_else(|| StoreError::corrupt("an answer of no server"))?,
        bucket,
        sent_at: written.sent_at,
    })
}

/// The numbers of the published jobs: runs without a gap, each as its first number and its length.
fn numbers(reply: &mut Reply) -> Result<Vec<u64>, StoreError> {
    let mut numbers = Vec::new();
    while reply.has_more() {
        let (first, count) = (reply.count()?, reply.count()?);
        let run = (first..).zip(0..count.min(PUBLISH_JOBS_MAX as u64));
        numbers.extend(run.map(|(number, _)| number));
    }
    Ok(numbers)
}
