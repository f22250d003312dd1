use bytes::Buf;
use tidegate_core::{GroupHash, IfExists, InvalidJob, JobId, KeyHash, LaneHash, NewJob, QueueKey};

use super::job_reference::KeyPlace;
use super::publish::{PUBLISH_JOBS_MAX, PublishCall};
use super::publish_reply::{PublishRefusal, PublishReply, REPLAYED, StoredJob, read_outcome};
use crate::error::StoreError;
use crate::script::{LazyScript, script};
use crate::store::Store;

/// Maximum time for which entries of idempotency keys are stored, in ms: two windows of a day.
pub(crate) const IDEMPOTENCY_MS_MAX: u64 = 2 * 24 * 3_600_000;

/// Length of the result of a job: outcome, number, creation time, nonce, state, due time.
const RESULT_BYTES: usize = 1 + 6 + 6 + 2 + 1 + 6;

/// What the script reports of a job that is done and to be replaced, in a lane that is asked.
const IS_DONE: u64 = 11;

static PUBLISH_KEYED: LazyScript = script!("publish_keyed");

/// An idempotency key, and the request that it stands for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct IdempotentRequest {
    pub key: KeyHash,
    /// A hash of everything that the request asks for.
    pub request: u64,
}

/// A job to be published, perhaps with a key or an idempotency key.
#[derive(Debug, Clone)]
pub struct PublishJob {
    /// The job. The hash of its key, if it has one, is in its native options.
    pub job: NewJob,
    /// The effect on a job with the same key. Without a key it has no meaning.
    pub if_exists: IfExists,
    /// The idempotency key.
    pub idempotency: Option<IdempotentRequest>,
}

impl From<NewJob> for PublishJob {
    /// A job without a key.
    fn from(job: NewJob) -> Self {
        Self {
            job,
            if_exists: IfExists::default(),
            idempotency: None,
        }
    }
}

impl PublishJob {
    /// Whether it has a key or an idempotency key.
    pub fn is_keyed(&self) -> bool {
        self.idempotency.is_some() || self.key().is_some()
    }

    /// The hash that decides in which lane it is: that of its key, else of its group, else of its idempotency key. `None` =
    /// it may be in any lane.
    pub fn lane_hash(&self) -> Option<LaneHash> {
        let native = self.job.native.as_ref();
        let group = || native.and_then(|native| native.extension.group_hash);
        let request = || self.idempotency.map(|request| request.key.lane_hash());
        let key = self.key().map(|key| key.lane_hash());
        key.or_else(|| group().map(GroupHash::lane_hash))
            .or_else(request)
    }

    /// The hash of its key, if it has one.
    pub fn key(&self) -> Option<KeyHash> {
        let native = self.job.native.as_ref()?;
        native.extension.key_hash.map(KeyHash)
    }
}

/// How jobs with keys are published.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct KeyedCall {
    /// Maximum number of jobs of the queue, except for done jobs; `None` = not limited.
    pub max_jobs: Option<u64>,
    /// Whether the queue takes no jobs: only repeated requests are answered.
    pub is_closed: bool,
    /// The lane, and the placement of the keys. All of them may be there.
    pub place: KeyPlace,
    /// Whether only jobs are changed that the lane has, and new ones are stored in another one. For the others the
    /// refusal is [`PublishRefusal::QueueFull`] or [`PublishRefusal::IsDone`]. Of an atomic call all jobs must be there,
    /// or none.
    pub asks: bool,
    /// How long a request with an idempotency key may be repeated, in ms; at least 1.
    pub idempotency_window_ms: u64,
    /// Whether all jobs are stored or none.
    pub atomic: bool,
}

impl KeyedCall {
    /// The argument `max_jobs`.
    fn room(&self) -> String {
        match self.max_jobs {
            _ if self.is_closed => "closed".to_owned(),
            _ if self.asks => "ask".to_owned(),
            Some(jobs) => jobs.to_string(),
            None => String::new(),
        }
    }
}

impl Store {
    /// Publishes 1 to [`PUBLISH_JOBS_MAX`] jobs that have a key or an idempotency key, in their order.
    ///
    /// # Errors
    /// The errors of [`Store::publish`], except for a closed lane. [`StoreError::PlacementStale`]: nothing was stored.
    pub async fn publish_keyed(
        &self,
        queue: &QueueKey,
        jobs: Vec<PublishJob>,
        keyed_call: KeyedCall,
    ) -> Result<PublishReply, StoreError> {
        if jobs.is_empty() || jobs.len() > PUBLISH_JOBS_MAX {
            return Err(InvalidJob::BatchSize(jobs.len()).into());
        }
        for job in &jobs {
            job.job.check()?;
        }
        let nonce = |job: &PublishJob| job.key().map_or_else(rand::random, |key| key.nonce());
        let nonces: Vec<u16> = jobs.iter().map(nonce).collect();
        let options: Vec<(&str, Vec<u8>)> = jobs.iter().map(options_of).collect();
        let jobs: Vec<NewJob> = jobs.into_iter().map(|job| job.job).collect();
        let bucket = self.bucket_of(queue.lane(keyed_call.place.lane));
        let PublishCall {
            records,
            uploads,
            bytes,
        } = self.encode_call(&jobs, &nonces, bucket).await?;
        let call = self
            .call_on_queue(&PUBLISH_KEYED, queue, bucket)
            .arg(keyed_call.room())
            .arg(keyed_call.idempotency_window_ms.max(1))
            .arg(u8::from(keyed_call.atomic))
            .arg(uploads.name)
            .arg(self.max_queues(&queue.namespace))
            .arg(keyed_call.place.placement.to_string());
        let call = records.into_iter().zip(options).fold(
            call,
            |call, (record, (if_exists, idempotency))| {
                call.arg(&record.header)
                    .arg(record.payload)
                    .arg(if_exists)
                    .arg(idempotency)
            },
        );
        let (mut reply, receipt) = self
            .send_publish(call, uploads.commands, bytes, (queue, bucket))
            .await?;
        match reply.token() {
            "refused" => {
                let index = usize::try_from(reply.count()?).unwrap_or(usize::MAX);
                match read_outcome(reply.count()?)? {
                    Err(refusal) => Ok(PublishReply::Refused { index, refusal }),
                    Ok(outcome) => Err(StoreError::corrupt(format!(
                        "script refused a job with the outcome {outcome:?}"
                    ))),
                }
            }
            "closed" => Ok(PublishReply::LaneClosed),
            _ => {
                let mut reply = reply.ok()?;
                let _now_ms = reply.count()?;
                let jobs = results(&reply.bytes()?, jobs.len(), bucket)?;
                Ok(PublishReply::Done { jobs, receipt })
            }
        }
    }
}

/// The arguments `if_exists` and `repeat` of a job.
fn options_of(job: &PublishJob) -> (&'static str, Vec<u8>) {
    let if_exists = job.key().map_or("", |_| job.if_exists.as_str());
    let idempotency = job.idempotency.map(|it| {
        let mut bytes = it.key.0.to_vec();
        bytes.extend_from_slice(&it.request.to_be_bytes());
        bytes
    });
    (if_exists, idempotency.unwrap_or_default())
}

/// The result of each job of a call, as the script returns them: 22 bytes each.
fn results(
    bytes: &[u8],
    jobs: usize,
    bucket: u16,
) -> Result<Vec<Result<StoredJob, PublishRefusal>>, StoreError> {
    if bytes.len() != jobs * RESULT_BYTES {
        let error = format!("script returned {} bytes for {jobs} jobs", bytes.len());
        return Err(StoreError::corrupt(error));
    }
    let results = bytes.chunks_exact(RESULT_BYTES);
    results.map(|bytes| result(bytes, bucket)).collect()
}

fn result(mut bytes: &[u8], bucket: u16) -> Result<Result<StoredJob, PublishRefusal>, StoreError> {
    let reported = bytes.get_u8().into();
    let (number, created_ms, nonce) = (bytes.get_uint(6), bytes.get_uint(6), bytes.get_u16());
    let id = JobId::new(created_ms, bucket, number, nonce);
    if reported == IS_DONE {
        return Ok(Err(PublishRefusal::IsDone(id)));
    }
    let outcome = match read_outcome(reported)? {
        Ok(outcome) => outcome,
        Err(refusal) => return Ok(Err(refusal)),
    };
    let state = match bytes.get_u8() {
        0 => None,
        state => Some(crate::reply::state(state.into())?),
    };
    let run_at_ms = Some(bytes.get_uint(6)).filter(|at| *at > 0);
    Ok(Ok(StoredJob {
        outcome,
        replayed: reported == REPLAYED,
        id,
        state,
        run_at_ms,
    }))
}
