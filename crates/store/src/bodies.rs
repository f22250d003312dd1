//! Large bodies are not passed through scripts. They are written to Redis before the script that publishes, and read
//! after the script that reserves or peeks.
//!
//! ```text
//!  publish   SET upload:<name>:0 …  ─┐ one pipeline, on the connection   ┌─ expires after a minute
//!            publish.lua            ─┘ for large transfers               └─ RENAME to body:<n>, PERSIST
//!
//!  reserve   reserve.lua ──► headers; payloads that are short enough
//!            GET body:<n> …  ──► the others, up to 16 at a time, on the connection for large transfers
//!
//!  list      list_jobs.lua ──► records, and the beginnings of bodies: attributes, and how long the body is
//! ```
//!
//! The payload of a job in the cold tier is read from there, in the same places.
//!
//! Lua copies each argument and each result, and Redis executes nothing else in this time. A long transfer would also
//! delay all calls behind it on the same connection.

use bytes::Bytes;
use futures_util::future::try_join_all;
use redis::{Cmd, Value};
use tidegate_core::codec::{NewRecord, RecordFlags, RecordHeader, RecordParts};
use tidegate_core::keys::BucketKeys;
use tidegate_core::{ColdReference, Job, JobId, QueueKey};
use tokio::task::yield_now;

use crate::error::StoreError;
use crate::store::Store;

/// Approximate maximum size of a call or reply on the connection that all calls share, in bytes. Larger ones use the
/// connection for large transfers.
pub const SMALL_TRANSFER_BYTES_MAX: usize = 64 * 1024;
/// Bodies of this length together, in bytes, are decoded before other tasks have a turn.
const DECODED_AT_ONCE_BYTES: usize = 1 << 20;
/// Payloads of up to this many bytes cost less inside of a script than with separate commands.
pub(crate) const CARRIED_BYTES_MAX: usize = 4 * 1024;
/// Time to live of an upload, in ms. The script that makes it a body follows in the same pipeline: this is ample.
pub(crate) const UPLOAD_MS: u64 = 60_000;
/// Bodies that are read at the same time. Replies have a time limit, so their size must be bounded.
const BODIES_PER_ROUND: usize = 16;

/// How many bytes of a payload are read at most, in steps, until its attributes are all there. Payloads with the most
/// and the longest attributes of the native API need the second step.
const BEGINNING_BYTES: [usize; 2] = [4 * 1024, 64 * 1024];

/// The part of a payload outside of its record that is read.
#[derive(Debug, Clone, Copy)]
enum BodyPart {
    Whole,
    /// Up to so many bytes.
    Beginning(usize),
}

/// Maximum size of an outside payload that is returned with its record, in bytes, if `jobs` jobs are requested:
/// together they stay a small transfer.
pub(crate) fn carried_bytes(jobs: usize) -> usize {
    CARRIED_BYTES_MAX.min(SMALL_TRANSFER_BYTES_MAX / jobs.max(1))
}

/// The payloads of a call that are uploaded before its script runs.
pub(crate) struct Uploads {
    /// The name under which the script finds them; empty if there are none.
    pub(crate) name: String,
    /// The commands that upload them.
    pub(crate) commands: Vec<Cmd>,
}

impl Uploads {
    /// Takes the large payloads out of the records of one call.
    pub(crate) fn take_from(
        records: &mut [NewRecord],
        keys: &BucketKeys,
        inline_limit_bytes: usize,
    ) -> Self {
        let longest = inline_limit_bytes.max(CARRIED_BYTES_MAX);
        let is_large = |record: &NewRecord| record.payload.len() > longest;
        if !records.iter().any(is_large) {
            return Self {
                name: String::new(),
                commands: Vec::new(),
            };
        }
        // The name must be unique: otherwise jobs of two calls could get each other's payloads.
        let name = format!("{:032x}", rand::random::<u128>());
        let records = records.iter_mut().enumerate();
        let large = records.filter(|(_, record)| is_large(record));
        let commands = large.map(|(index, record)| {
            let mut set = redis::cmd("SET");
            set.arg(keys.upload(&name, index))
                .arg(std::mem::take(&mut record.payload))
                .arg("PX")
                .arg(UPLOAD_MS);
            set
        });
        Self {
            commands: commands.collect(),
            name,
        }
    }
}

/// A job without its body, and how many bytes that has.
pub(crate) type JobBeginning = (Job, u64);

fn without_body(mut job: Job) -> JobBeginning {
    let body = std::mem::take(&mut job.body);
    (job, body.len() as u64)
}

/// A record as scripts return it.
pub(crate) struct StoredRecord {
    pub(crate) id: JobId,
    parts: RecordParts,
}

impl StoredRecord {
    /// Reads the record of job `number` of `bucket`.
    pub(crate) fn read(bucket: u16, number: u64, record: Bytes) -> Result<Self, StoreError> {
        let parts = RecordParts::split(&record)?;
        Ok(Self {
            id: parts.header.id(bucket, number),
            parts,
        })
    }

    /// The job of a record whose extension is damaged, without options and payload.
    ///
    /// # Errors
    /// The header is damaged, too.
    pub(crate) fn damaged_job(bucket: u16, number: u64, record: &Bytes) -> Result<Job, StoreError> {
        let header = RecordParts::header_alone(record)?;
        Ok(header.decode_without_payload(bucket, number)?)
    }

    pub(crate) const fn header(&self) -> &RecordHeader {
        &self.parts.header
    }

    /// Whether the payload has a key of its own.
    fn is_outside(&self) -> bool {
        self.header().flags.has(RecordFlags::BODY_OUTSIDE)
    }

    /// Whether the payload is in the cold tier.
    pub(crate) const fn is_cold(&self) -> bool {
        self.parts.cold.is_some()
    }

    /// Whether the payload is to be fetched from its own key, or the cold tier. A payload is never empty: it has a seal.
    pub(crate) fn is_without_payload(&self) -> bool {
        self.parts.payload.is_empty() && self.is_outside()
    }

    /// The job without its attributes and body; `None` if its extension is damaged.
    pub(crate) fn without_payload(&self) -> Option<Job> {
        let (bucket, number) = (self.id.bucket(), self.id.number());
        self.parts.decode_without_payload(bucket, number).ok()
    }

    /// The job, from a record whose payload has at most `most` bytes: of a longer payload they are the beginning. The
    /// seal of a whole payload is checked.
    fn decode_beginning(&self, most: usize) -> Result<JobBeginning, JobReadError> {
        if self.is_outside() && self.parts.payload.len() >= most {
            let (bucket, number) = (self.id.bucket(), self.id.number());
            let decoded = self.parts.decode_beginning(bucket, number);
            return decoded.map_err(|error| JobReadError::corrupt(self.id, error));
        }
        Ok(without_body(self.decode()?))
    }

    fn decode(&self) -> Result<Job, JobReadError> {
        let job = self.parts.decode(self.id.bucket(), self.id.number());
        job.map_err(|error| JobReadError::corrupt(self.id, error))
    }
}

/// A payload that was fetched after its record.
enum FetchedBody {
    Payload(Bytes),
    Missing,
    /// It is in the cold tier. The text says why it cannot be read.
    Unavailable(String),
}

impl FetchedBody {
    fn payload(self) -> Option<Bytes> {
        match self {
            Self::Payload(payload) => Some(payload),
            Self::Missing | Self::Unavailable(_) => None,
        }
    }
}

/// Why a job cannot be returned.
pub(crate) enum JobReadError {
    /// It was deleted after the script and before its body was fetched.
    Gone,
    /// It is damaged. The text names the job and the damage.
    Corrupt(String),
    /// Its payload is in the cold tier, and cannot be read from there now. The text names the job and the reason.
    Unavailable(String),
}

impl JobReadError {
    fn corrupt(id: JobId, how: impl std::fmt::Display) -> Self {
        Self::Corrupt(format!("job {id}: {how}"))
    }

    fn unavailable(id: JobId, why: impl std::fmt::Display) -> Self {
        Self::Unavailable(format!("job {id}: {why}"))
    }
}

impl Store {
    /// Fetches the payloads that are stored outside of their records, and decodes all jobs. A job with a key can be
    /// replaced after its record was read; it is then returned as it is now, in any state.
    pub(crate) async fn fetch_bodies(
        &self,
        queue: &QueueKey,
        records: Vec<StoredRecord>,
    ) -> Result<Vec<Result<Job, JobReadError>>, StoreError> {
        let left = records.iter().filter(|record| record.is_without_payload());
        let places: Vec<_> = left.map(|record| (record.id, record.parts.cold)).collect();
        let mut fetched = self.fetch(&places, BodyPart::Whole).await?.into_iter();
        let (mut jobs, mut decoded_bytes) = (Vec::with_capacity(records.len()), 0);
        for record in records {
            if record.is_without_payload() {
                let body = fetched.next().unwrap_or(FetchedBody::Missing);
                jobs.push(self.decode_fetched(queue, record, body).await?);
                decoded_bytes += jobs.last().map_or(0, body_bytes);
                if decoded_bytes > DECODED_AT_ONCE_BYTES {
                    decoded_bytes = 0;
                    yield_now().await;
                }
            } else {
                jobs.push(record.decode());
            }
        }
        Ok(jobs)
    }

    /// Decodes jobs of records whose payloads are cut behind `most` bytes, without their bodies. If the attributes are
    /// not all there, more of the payload is read, and the whole one if that is damaged, too. Damage behind the
    /// beginning is unnoticed.
    pub(crate) async fn beginnings(
        &self,
        queue: &QueueKey,
        mut records: Vec<StoredRecord>,
        most: usize,
    ) -> Result<Vec<Result<JobBeginning, JobReadError>>, StoreError> {
        let mut decoded: Vec<_> = records
            .iter()
            .map(|record| record.decode_beginning(most))
            .collect();
        for most in BEGINNING_BYTES {
            let is_unknown = |at: &usize| decoded[*at].is_err() && records[*at].is_outside();
            let unknown: Vec<usize> = (0..records.len()).filter(is_unknown).collect();
            let place = |at: &usize| (records[*at].id, records[*at].parts.cold);
            let places: Vec<_> = unknown.iter().map(place).collect();
            let fetched = self.fetch(&places, BodyPart::Beginning(most)).await?;
            for (at, body) in unknown.into_iter().zip(fetched) {
                let is_cold = records[at].parts.cold.is_some();
                records[at].parts.payload = body.payload().unwrap_or_default();
                // Of a cold payload all is read.
                let most = if is_cold { usize::MAX } else { most };
                decoded[at] = records[at].decode_beginning(most);
            }
        }
        let mut jobs = Vec::with_capacity(records.len());
        for (record, decoded) in records.into_iter().zip(decoded) {
            jobs.push(match decoded.is_err() && record.is_outside() {
                true => {
                    let job = self.decode_fetched(queue, record, FetchedBody::Missing);
                    job.await?.map(without_body)
                }
                false => decoded,
            });
        }
        Ok(jobs)
    }

    /// Fetches the payload of one job, and decodes it; `None` if it does not exist any more.
    ///
    /// # Errors
    /// Redis is unavailable, or the object store of a cold payload; or the job is damaged.
    pub(crate) async fn fetch_job(
        &self,
        queue: &QueueKey,
        record: StoredRecord,
    ) -> Result<Option<Job>, StoreError> {
        match self.fetch_bodies(queue, vec![record]).await?.pop() {
            Some(Ok(job)) => Ok(Some(job)),
            Some(Err(JobReadError::Corrupt(how))) => Err(StoreError::corrupt(how)),
            Some(Err(JobReadError::Unavailable(why))) => Err(StoreError::ColdUnavailable(why)),
            Some(Err(JobReadError::Gone)) | None => Ok(None),
        }
    }

    /// Decodes a record whose body was fetched after it. If the body does not fit, both are read again in one step: the
    /// job may have got another version, or its payload may be back from the cold tier.
    async fn decode_fetched(
        &self,
        queue: &QueueKey,
        mut record: StoredRecord,
        body: FetchedBody,
    ) -> Result<Result<Job, JobReadError>, StoreError> {
        let mut why_cold = None;
        match body {
            FetchedBody::Payload(payload) => record.parts.payload = payload,
            FetchedBody::Missing => {}
            FetchedBody::Unavailable(why) => why_cold = Some(why),
        }
        if let (Ok(job), None) = (record.decode(), &why_cold) {
            return Ok(Ok(job));
        }
        let Some(now) = self.whole_record(queue, record.id).await? else {
            return Ok(Err(JobReadError::Gone));
        };
        Ok(match now.parts.cold {
            Some(_) => {
                let why = why_cold.unwrap_or_else(|| "its payload has just been frozen".to_owned());
                Err(JobReadError::unavailable(now.id, why))
            }
            None if now.is_without_payload() => {
                Err(JobReadError::corrupt(now.id, "its body is missing"))
            }
            None => now.decode(),
        })
    }

    /// The payloads of jobs, each from the cold tier if it is there, otherwise from its own key.
    async fn fetch(
        &self,
        places: &[(JobId, Option<ColdReference>)],
        part: BodyPart,
    ) -> Result<Vec<FetchedBody>, StoreError> {
        let mut bodies = Vec::with_capacity(places.len());
        for places in places.chunks(BODIES_PER_ROUND) {
            let round = places
                .iter()
                .map(|(id, cold)| self.fetch_one(*id, *cold, part));
            bodies.extend(try_join_all(round).await?);
        }
        Ok(bodies)
    }

    async fn fetch_one(
        &self,
        id: JobId,
        cold: Option<ColdReference>,
        part: BodyPart,
    ) -> Result<FetchedBody, StoreError> {
        if let Some(reference) = cold {
            let read = self.read_cold_payload(id, reference).await;
            return Ok(read.map_or_else(FetchedBody::Unavailable, FetchedBody::Payload));
        }
        let body = self.keys(id.bucket()).body(id.number());
        let get = match part {
            BodyPart::Whole => Cmd::get(body),
            BodyPart::Beginning(most) => Cmd::getrange(body, 0, most as isize - 1),
        };
        Ok(match self.large_command::<Value>(&get).await? {
            Value::BulkString(bytes) => FetchedBody::Payload(bytes.into()),
            _ => FetchedBody::Missing,
        })
    }

    /// The record of a job as it is now, without a payload outside of it; `None` if there is none that can be read.
    pub(crate) async fn record_parts(&self, id: JobId) -> Result<Option<RecordParts>, StoreError> {
        let (chunk, field) = self.keys(id.bucket()).record(id.number());
        let record: Option<Bytes> = self.command(&Cmd::hget(chunk, field)).await?;
        Ok(record.and_then(|record| RecordParts::split(&record).ok()))
    }

    /// Payloads that are in their own keys; `None` where there is none.
    pub(crate) async fn bodies_of(&self, ids: &[JobId]) -> Result<Vec<Option<Bytes>>, StoreError> {
        let places: Vec<_> = ids.iter().map(|id| (*id, None)).collect();
        let bodies = self.fetch(&places, BodyPart::Whole).await?.into_iter();
        Ok(bodies.map(FetchedBody::payload).collect())
    }
}

fn body_bytes(job: &Result<Job, JobReadError>) -> usize {
    job.as_ref().map_or(0, |job| job.body.len())
}
