//! Large bodies go around the scripts: into Redis before the script that publishes, out of it after the
//! script that reserves or peeks.
//!
//! ```text
//!  publish   SET upload:<name>:0 …  ─┐ one piece, over the connection    ┌─ SET expires by itself
//!            publish.lua            ─┘ for large transfers               └─ RENAME to body:<n>, PERSIST
//!
//!  reserve   reserve.lua ──► headers; the payloads that are short enough
//!            GET body:<n> …  ──► the others, some at a time, over the connection for large transfers
//! ```
//!
//! Lua copies each string that it is handed or hands out, and Redis does nothing else meanwhile. And what is
//! long to transfer would hold up all that follows it on its connection.

use bytes::Bytes;
use futures_util::future::try_join_all;
use redis::{Cmd, Value};
use tidegate_core::codec::{Flags, HEADER_BYTES, Header, NewRecord, decode_parts};
use tidegate_core::keys::BucketKeys;
use tidegate_core::{Job, JobId, QueueKey};

use crate::{Store, StoreError};

/// The most bytes that a call or an answer carries over the connection that all calls share, more or less. Larger
/// ones go over the connection for large transfers.
pub const SMALL_TRANSFER_BYTES_MAX: usize = 64 * 1024;
/// Payloads of up to so many bytes cost less inside of a script than the commands that take them past it.
const CARRIED_BYTES_MAX: usize = 4 * 1024;
/// How long a payload waits for the script that makes it a body. They come in one piece: far too long is
/// long enough.
pub(crate) const UPLOAD_MS: u64 = 60_000;
/// Bodies that are asked for at once: answers are bounded in time, and so in size.
const BODIES_PER_ROUND: usize = 16;

/// How many bytes an outside payload may have to come with its record, where so many jobs are asked for:
/// together they stay a small transfer.
pub(crate) fn carried_bytes(jobs: usize) -> usize {
    CARRIED_BYTES_MAX.min(SMALL_TRANSFER_BYTES_MAX / jobs.max(1))
}

/// The payloads of one call that go before its script.
pub(crate) struct Uploads {
    /// What the script knows them by; empty if there are none.
    pub(crate) name: String,
    /// The commands that bring them to Redis.
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
        // Never the same twice: jobs of two calls must not get each other's payloads.
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

/// A record as scripts answer it.
pub(crate) struct Record {
    pub(crate) id: JobId,
    pub(crate) header: Header,
    /// `None` = it stayed outside.
    payload: Option<Bytes>,
}

impl Record {
    /// Reads the record of job `number` of `bucket`.
    pub(crate) fn read(bucket: u16, number: u64, record: Bytes) -> Result<Self, StoreError> {
        let header = Header::decode(&record)?;
        let payload = record.slice(HEADER_BYTES..);
        // No payload is of no bytes.
        let is_left = payload.is_empty() && header.flags.has(Flags::BODY_OUTSIDE);
        Ok(Self {
            id: JobId::new(header.created_at_ms, bucket, number, header.nonce),
            header,
            payload: (!is_left).then_some(payload),
        })
    }
}

/// Why a job cannot be shown.
pub(crate) enum Incomplete {
    /// It was deleted between the script and the fetching of its body.
    Gone,
    /// What is stored of it is damaged: how, and which job.
    Corrupt(String),
}

impl Incomplete {
    fn corrupt(id: JobId, how: impl std::fmt::Display) -> Self {
        Self::Corrupt(format!("job {id}: {how}"))
    }
}

impl Store {
    /// Fetches what stayed outside, and decodes all.
    pub(crate) async fn complete(
        &self,
        queue: &QueueKey,
        records: Vec<Record>,
    ) -> Result<Vec<Result<Job, Incomplete>>, StoreError> {
        let left = records.iter().filter(|record| record.payload.is_none());
        let left: Vec<JobId> = left.map(|record| record.id).collect();
        let mut fetched = self.fetch(queue, &left).await?.into_iter();
        let jobs = records.into_iter().map(|record| {
            let payload = match record.payload {
                Some(payload) => payload,
                None => fetched.next().unwrap_or(Err(Incomplete::Gone))?,
            };
            let (bucket, number) = (record.id.bucket(), record.id.number());
            let job = decode_parts(bucket, number, &record.header, payload);
            job.map_err(|error| Incomplete::corrupt(record.id, error))
        });
        Ok(jobs.collect())
    }

    async fn fetch(
        &self,
        queue: &QueueKey,
        ids: &[JobId],
    ) -> Result<Vec<Result<Bytes, Incomplete>>, StoreError> {
        let mut bodies = Vec::with_capacity(ids.len());
        for ids in ids.chunks(BODIES_PER_ROUND) {
            for (id, body) in ids.iter().zip(self.fetch_round(ids).await?) {
                bodies.push(match body {
                    Some(body) => Ok(body),
                    None if self.is_gone(queue, *id).await? => Err(Incomplete::Gone),
                    None => Err(Incomplete::corrupt(*id, "it has no body")),
                });
            }
        }
        Ok(bodies)
    }

    async fn fetch_round(&self, ids: &[JobId]) -> Result<Vec<Option<Bytes>>, StoreError> {
        let asked = ids.iter().map(|id| async move {
            let mut get = redis::cmd("GET");
            get.arg(self.keys(id.bucket()).body(id.number()));
            self.large_command::<Value>(&get).await
        });
        let answers = try_join_all(asked).await?;
        let bodies = answers.into_iter().map(|answer| match answer {
            Value::BulkString(bytes) => Some(bytes.into()),
            _ => None,
        });
        Ok(bodies.collect())
    }
}
