use tidegate_core::codec::encode_result;
use tidegate_core::v1::consume::{Outcome, SettleCall};
use tidegate_core::{Attributes, JobId, JobState, QueueKey};

use super::settle::{LeasedJob, SettleVerb, outcome_of};
use crate::bodies::SMALL_TRANSFER_BYTES_MAX;
use crate::error::StoreError;
use crate::reply::Reply;
use crate::script::{LazyScript, script};
use crate::script_call::Call;
use crate::store::Store;

static ACK: LazyScript = script!("ack");
/// The same, but a server that has reached `maxmemory` refuses it.
static ACK_WITH_RESULTS: LazyScript = script!("ack").refused_without_memory();

/// An acknowledgement that was answered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[must_use]
pub struct Acked {
    pub outcome: Outcome,
    /// The state it was in, if it is done.
    pub was: Option<JobState>,
    /// Time since the job was published, in ms; 0 if no run of it has ended.
    pub age_ms: u64,
}

/// An acknowledgement of a job.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AckRequest {
    pub id: JobId,
    /// The delivery that is done; `None` = any delivery, in any state of the job.
    pub attempt: Option<u32>,
    /// Kept as long as the job is. A server that has reached `maxmemory` drops it.
    pub result: Option<NewResult>,
}

impl From<JobId> for AckRequest {
    fn from(id: JobId) -> Self {
        Self {
            id,
            attempt: None,
            result: None,
        }
    }
}

impl From<LeasedJob> for AckRequest {
    fn from(job: LeasedJob) -> Self {
        Self {
            attempt: Some(job.attempt),
            ..job.id.into()
        }
    }
}

/// The result that a worker returns for a job.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewResult {
    /// Stored with the result.
    pub attributes: Attributes,
    /// The result.
    pub body: bytes::Bytes,
}

/// Acknowledging jobs; jobs that count failures and do not say how long they are kept are kept for this time, in ms.
struct Ack {
    retain_ms: u64,
}

impl SettleVerb for Ack {
    type Item = AckRequest;
    type Outcome = Acked;

    const GONE: Acked = Acked {
        outcome: Outcome::Gone,
        was: None,
        age_ms: 0,
    };

    fn id(job: &AckRequest) -> JobId {
        job.id
    }

    fn add_options<'c>(&self, call: Call<'c>) -> Call<'c> {
        call.arg(self.retain_ms).arg(0)
    }

    fn add_item<'c>(&self, call: Call<'c>, job: &AckRequest) -> Call<'c> {
        call.arg(job.attempt.unwrap_or(0))
    }

    fn read(job: &AckRequest, reply: &mut Reply, now_ms: u64) -> Result<Acked, StoreError> {
        let (number, state) = (reply.count()?, reply.count()?);
        let outcome = outcome_of(SettleCall::Ack, number, Outcome::DONE)?;
        let was = match outcome {
            Outcome::Done { .. } => Some(crate::reply::state(state)?),
            Outcome::Rerun => None,
            _ => {
                return Ok(Acked {
                    outcome,
                    ..Self::GONE
                });
            }
        };
        let age_ms = now_ms.saturating_sub(job.id.created_at_ms());
        Ok(Acked {
            outcome,
            was,
            age_ms,
        })
    }
}

impl Store {
    /// Ends a job that is done. With an `attempt`, only that delivery can, and only while it holds the job; without,
    /// any caller at any time.
    ///
    /// # Errors
    /// Redis is unavailable. The job may have been deleted.
    pub async fn ack(
        &self,
        queue: &QueueKey,
        id: JobId,
        attempt: Option<u32>,
    ) -> Result<Acked, StoreError> {
        let request = AckRequest {
            attempt,
            ..id.into()
        };
        let mut acked = self.ack_all(queue, &[request], 0).await?;
        Ok(acked.pop().unwrap_or(Ack::GONE))
    }

    /// Ends jobs that are done, and returns the outcome of each, in order. The jobs of a bucket are ended in one step,
    /// unless their results are large. Jobs of the native API that do not say how long they are to be kept are kept for
    /// `retain_ms`; 0 = they are deleted.
    ///
    /// # Errors
    /// Redis is unavailable. Jobs may be done.
    pub async fn ack_all(
        &self,
        queue: &QueueKey,
        jobs: &[AckRequest],
        retain_ms: u64,
    ) -> Result<Vec<Acked>, StoreError> {
        if jobs.iter().all(|job| job.result.is_none()) {
            return self.settle(&ACK, queue, &Ack { retain_ms }, jobs).await;
        }
        let mut acked = vec![Ack::GONE; jobs.len()];
        for (bucket, indexes) in self.by_bucket(jobs.iter().map(Ack::id)) {
            for indexes in small_calls(&indexes, jobs) {
                let of_call: Vec<&AckRequest> = indexes.iter().map(|index| &jobs[*index]).collect();
                let answers = self.ack_with_results(queue, bucket, &of_call, retain_ms);
                for (index, answer) in indexes.iter().zip(answers.await?) {
                    acked[*index] = answer;
                }
            }
        }
        Ok(acked)
    }

    /// Acknowledges some jobs of a bucket with their results; without them if the server has no memory.
    async fn ack_with_results(
        &self,
        queue: &QueueKey,
        bucket: u16,
        jobs: &[&AckRequest],
        retain_ms: u64,
    ) -> Result<Vec<Acked>, StoreError> {
        let results: Vec<(usize, Vec<u8>)> = jobs
            .iter()
            .enumerate()
            .filter_map(|(place, job)| Some((place, self.encoded_result(job)?)))
            .collect();
        let call = self.call_on_queue(&ACK_WITH_RESULTS, queue, bucket);
        let mut call = call.arg(retain_ms).arg(results.len());
        let mut bytes = 0;
        for (place, result) in &results {
            bytes += result.len();
            call = call.arg(*place).arg(result);
        }
        call = jobs.iter().fold(call, |call, job| {
            call.job(Some(job.id)).arg(job.attempt.unwrap_or(0))
        });
        let sent = match bytes > SMALL_TRANSFER_BYTES_MAX {
            true => call.send_with_commands(Vec::new()).await,
            false => call.send_tracked().await,
        };
        let mut reply = match sent {
            Ok((reply, _)) => reply.ok()?,
            Err(error) if error.is_out_of_memory() => {
                return self.ack_without_results(queue, jobs, retain_ms).await;
            }
            Err(error) => return Err(error),
        };
        let now_ms = reply.count()?;
        let jobs = jobs.iter();
        jobs.map(|job| Ack::read(job, &mut reply, now_ms)).collect()
    }

    async fn ack_without_results(
        &self,
        queue: &QueueKey,
        jobs: &[&AckRequest],
        retain_ms: u64,
    ) -> Result<Vec<Acked>, StoreError> {
        let requests: Vec<AckRequest> = jobs.iter().map(|job| (*job).clone()).collect();
        let ack = Ack { retain_ms };
        let mut acked = self.settle(&ACK, queue, &ack, &requests).await?;
        for (acked, job) in acked.iter_mut().zip(jobs) {
            if let Outcome::Done { result_dropped } = &mut acked.outcome {
                *result_dropped = job.result.is_some();
            }
        }
        Ok(acked)
    }

    fn encoded_result(&self, job: &AckRequest) -> Option<Vec<u8>> {
        let result = job.result.as_ref()?;
        let compress_from = self.inner.config.compress_from_bytes;
        let nonce = job.id.nonce();
        Some(encode_result(
            &result.attributes,
            &result.body,
            nonce,
            compress_from,
        ))
    }
}

/// Splits the jobs of a bucket into calls with small results each, or with one large result.
fn small_calls<'a>(
    indexes: &'a [usize],
    jobs: &'a [AckRequest],
) -> impl Iterator<Item = &'a [usize]> {
    let mut bytes = 0;
    indexes.chunk_by(move |before, after| {
        let size = |index: &usize| jobs[*index].result.as_ref().map_or(0, |it| it.body.len());
        if bytes == 0 {
            bytes = size(before);
        }
        bytes += size(after);
        let is_same_call = bytes <= SMALL_TRANSFER_BYTES_MAX;
        if !is_same_call {
            bytes = 0;
        }
        is_same_call
    })
}
