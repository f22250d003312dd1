use tidegate_core::codec::encode_result;
use tidegate_core::{Attributes, JobId, JobState, QueueKey};

use super::settle::{SettleVerb, Settled};
use crate::bodies::SMALL_TRANSFER_BYTES_MAX;
use crate::error::StoreError;
use crate::reply::Reply;
use crate::script::{LazyScript, script};
use crate::script_call::Call;
use crate::store::Store;

static ACK: LazyScript = script!("ack");
/// The same, but a server that has reached `maxmemory` refuses it.
static ACK_WITH_RESULTS: LazyScript = script!("ack").refused_without_memory();

/// The outcome of an acknowledgement.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[must_use]
pub enum AckOutcome {
    /// The job is done: deleted, or kept for a while.
    Done {
        /// The state it was in.
        was: JobState,
        /// Time since the job was published, in ms.
        age_ms: u64,
    },
    /// This run is done. A newer version of the job, which waited for that, will run.
    Rerun {
        /// Time since the job was published, in ms.
        age_ms: u64,
    },
    /// There is no such job in this queue.
    AlreadyGone,
    /// The delivery no longer holds the job, which is unchanged.
    Lost,
}

impl AckOutcome {
    const fn is_done(self) -> bool {
        matches!(self, Self::Done { .. })
    }
}

/// An acknowledgement of a job.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AckRequest {
    /// The job.
    pub id: JobId,
    /// The delivery that is done; `None` = any delivery, in any state of the job.
    pub attempt: Option<u32>,
}

/// What a worker returns for a job that is done.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewResult {
    /// Stored with the result.
    pub attributes: Attributes,
    /// The result.
    pub body: bytes::Bytes,
}

/// Acknowledging jobs; those that count failures and do not say how long they are kept are kept for this time, in ms.
struct Ack {
    retain_ms: u64,
}

impl SettleVerb for Ack {
    type Item = AckRequest;
    type Outcome = AckOutcome;

    const GONE: AckOutcome = AckOutcome::AlreadyGone;

    fn id(job: &AckRequest) -> JobId {
        job.id
    }

    fn add_options<'c>(&self, call: Call<'c>) -> Call<'c> {
        call.arg(self.retain_ms).arg(0)
    }

    fn add_item<'c>(&self, call: Call<'c>, job: &AckRequest) -> Call<'c> {
        call.arg(job.attempt.unwrap_or(0))
    }

    fn read(job: &AckRequest, reply: &mut Reply, now_ms: u64) -> Result<AckOutcome, StoreError> {
        let (outcome, state) = (Settled::read(reply)?, reply.count()?);
        let age_ms = now_ms.saturating_sub(job.id.created_at_ms());
        match outcome {
            Settled::Gone => Ok(AckOutcome::AlreadyGone),
            Settled::Applied => Ok(AckOutcome::Done {
                was: crate::reply::state(state)?,
                age_ms,
            }),
            Settled::Rerun => Ok(AckOutcome::Rerun { age_ms }),
            Settled::Lost => Ok(AckOutcome::Lost),
            other => other.unexpected(),
        }
    }
}

impl Store {
    /// Ends a job that is done. With an `attempt`, only that delivery can, and only while it holds the job; without, any
    /// caller at any time.
    ///
    /// # Errors
    /// Redis is unavailable. The job may have been deleted.
    pub async fn ack(
        &self,
        queue: &QueueKey,
        id: JobId,
        attempt: Option<u32>,
    ) -> Result<AckOutcome, StoreError> {
        let request = AckRequest { id, attempt };
        let mut acked = self.ack_all(queue, &[request], 0).await?;
        Ok(acked.pop().unwrap_or(AckOutcome::AlreadyGone))
    }

    /// Ends jobs that are done, and returns the outcome of each, in order. Those of a bucket are ended in one step. Jobs
    /// of the native API that do not say how long they are to be kept are kept for `retain_ms`; 0 = they are deleted.
    ///
    /// # Errors
    /// Redis is unavailable. Jobs may have been deleted.
    pub async fn ack_all(
        &self,
        queue: &QueueKey,
        jobs: &[AckRequest],
        retain_ms: u64,
    ) -> Result<Vec<AckOutcome>, StoreError> {
        self.settle(&ACK, queue, &Ack { retain_ms }, jobs).await
    }

    /// The same for jobs with results, which are kept as long as the jobs are. A server that has reached `maxmemory` drops
    /// them. Returns the outcome of each job, and whether its result was dropped.
    ///
    /// # Errors
    /// Redis is unavailable. Jobs may be done.
    pub async fn ack_with_results(
        &self,
        queue: &QueueKey,
        jobs: &[(AckRequest, Option<NewResult>)],
        retain_ms: u64,
    ) -> Result<Vec<(AckOutcome, bool)>, StoreError> {
        let mut outcomes = vec![(AckOutcome::AlreadyGone, false); jobs.len()];
        let ids = jobs.iter().map(|(request, _)| request.id);
        for (bucket, indexes) in self.by_bucket(ids) {
            for indexes in small_calls(&indexes, jobs) {
                let acked = self.ack_call(queue, bucket, indexes, jobs, retain_ms);
                for (index, outcome) in indexes.iter().zip(acked.await?) {
                    outcomes[*index] = outcome;
                }
            }
        }
        Ok(outcomes)
    }

    /// Acknowledges some jobs of a bucket with their results; without them if the server has no memory.
    async fn ack_call(
        &self,
        queue: &QueueKey,
        bucket: u16,
        indexes: &[usize],
        jobs: &[(AckRequest, Option<NewResult>)],
        retain_ms: u64,
    ) -> Result<Vec<(AckOutcome, bool)>, StoreError> {
        let of_call = || indexes.iter().map(|index| &jobs[*index]);
        let results: Vec<(usize, Vec<u8>)> = of_call()
            .enumerate()
            .filter_map(|(place, (request, result))| {
                Some((place, self.encoded_result(request, result.as_ref()?)))
            })
            .collect();
        let call = self.call_on_queue(&ACK_WITH_RESULTS, queue, bucket);
        let mut call = call.arg(retain_ms).arg(results.len());
        let mut bytes = 0;
        for (place, result) in &results {
            bytes += result.len();
            call = call.arg(*place).arg(result);
        }
        call = of_call().fold(call, |call, (request, _)| {
            call.job(Some(request.id)).arg(request.attempt.unwrap_or(0))
        });
        let sent = match bytes > SMALL_TRANSFER_BYTES_MAX {
            true => call.send_with_commands(Vec::new()).await,
            false => call.send_tracked().await,
        };
        let mut reply = match sent {
            Ok((reply, _)) => reply.ok()?,
            Err(error) if error.is_out_of_memory() => {
                let requests: Vec<AckRequest> = of_call().map(|(request, _)| *request).collect();
                let acked = self.ack_all(queue, &requests, retain_ms).await?;
                let acked = acked.into_iter().zip(of_call());
                return Ok(acked
                    .map(|(outcome, (_, result))| (outcome, result.is_some() && outcome.is_done()))
                    .collect());
            }
            Err(error) => return Err(error),
        };
        let now_ms = reply.count()?;
        of_call()
            .map(|(request, _)| Ok((Ack::read(request, &mut reply, now_ms)?, false)))
            .collect()
    }

    fn encoded_result(&self, request: &AckRequest, result: &NewResult) -> Vec<u8> {
        let compress_from = self.inner.config.compress_from_bytes;
        let nonce = request.id.nonce();
        encode_result(&result.attributes, &result.body, nonce, compress_from)
    }
}

/// Splits the jobs of a bucket into calls with small results each, or with one that is large.
fn small_calls<'a>(
    indexes: &'a [usize],
    jobs: &'a [(AckRequest, Option<NewResult>)],
) -> impl Iterator<Item = &'a [usize]> {
    let mut bytes = 0;
    indexes.chunk_by(move |before, after| {
        let size = |index: &usize| jobs[*index].1.as_ref().map_or(0, |it| it.body.len());
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
