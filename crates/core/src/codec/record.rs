//! Whole records: encoding new jobs for the script that publishes, and decoding stored jobs.

use bytes::Bytes;

use super::bad_record::InvalidRecord;
use super::beginning;
use super::header::{HEADER_BYTES, RecordFlags, RecordHeader};
use super::payload;
use super::result::decode_result;
use crate::extension::RecordExtension;
use crate::group_hash::GroupHash;
use crate::keys::ReadyLine;
use crate::limits::PRIORITY_MAX;
use crate::{ColdReference, Failures, Job, JobState, KeyHash, NativeOptions, NewJob};

/// In a header that is published a due time above this is an instant, this much later; others are delays.
pub const INSTANT_MS: u64 = 1 << 46;

/// A new job as the script that publishes takes it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewRecord {
    /// The encoded header, with the delay and the time to live instead of the due time and the expiry, and the
    /// extension.
    pub header: Vec<u8>,
    /// The encoded payload with its seal.
    pub payload: Vec<u8>,
}

/// Encodes a new job. A payload with more than `inline_limit_bytes` bytes, seal included, gets the flag
/// [`RecordFlags::BODY_OUTSIDE`]. From `compress_from_bytes` bytes on it is compressed if that makes it smaller.
pub fn encode_new_job(
    job: &NewJob,
    nonce: u16,
    inline_limit_bytes: usize,
    compress_from_bytes: usize,
) -> NewRecord {
    let (mut payload, compressed) =
        payload::encode(&job.attributes, &job.body, compress_from_bytes);
    let stored_bytes = payload.len() + payload::SEAL_BYTES;
    let mut extension = Vec::new();
    if let Some(native) = job.native.as_ref().filter(|it| !it.extension.is_empty()) {
        native.extension.encode(&mut extension);
    }
    let has_option = |option: fn(&NativeOptions) -> bool| job.native.as_deref().is_some_and(option);
    let flags = RecordFlags::COMPRESSED.when(compressed)
        | RecordFlags::EXTENDED.when(!extension.is_empty())
        | RecordFlags::BODY_OUTSIDE.when(stored_bytes > inline_limit_bytes)
        | RecordFlags::COUNTS_FAILURES.when(job.counts_failures())
        | RecordFlags::LOSSES_UNLIMITED.when(has_option(|native| native.losses_unlimited))
        | RecordFlags::GROUPED.when(has_option(|native| native.extension.group_hash.is_some()))
        | RecordFlags::AWAITED.when(has_option(|native| native.is_awaited))
        | RecordFlags::MARK.when(job.mark)
        | RecordFlags::of_priority(job.native.as_ref().map_or(0, |native| native.priority));
    payload::add_seal(&mut payload, &extension, flags, nonce);
    let due_ms = job
        .run_at_ms()
        .map_or(job.delay_ms, |at_ms| at_ms + INSTANT_MS);
    let header = RecordHeader {
        state: if due_ms > 0 {
            JobState::Delayed
        } else {
            JobState::Ready
        },
        flags,
        tries_left: job.tries,
        attempt: 0,
        queue: 0,
        created_at_ms: 0,
        due_at_ms: due_ms,
        expires_at_ms: job.ttl_ms,
        nonce,
    };
    let mut header = header.encode().to_vec();
    header.append(&mut extension);
    NewRecord { header, payload }
}

/// The parts of a record as it is stored.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RecordParts {
    pub header: RecordHeader,
    /// The encoded extension with its length byte; empty if there is none.
    extension: Bytes,
    /// The payload with its seal; empty if it is stored outside of the record and was not read with it.
    pub payload: Bytes,
    /// Where the payload is, if it is in the cold tier.
    pub cold: Option<ColdReference>,
}

impl RecordParts {
    /// Splits a record: header, extension, and the payload if it follows.
    ///
    /// # Errors
    /// The header or the length of the extension is damaged, or this build does not support the version.
    pub fn split(record: &Bytes) -> Result<Self, InvalidRecord> {
        let header = RecordHeader::decode(record)?;
        let rest = record.slice(HEADER_BYTES..);
        let length = match rest.first() {
            _ if !header.flags.has(RecordFlags::EXTENDED) => 0,
            Some(length) if usize::from(*length) < rest.len() => usize::from(*length) + 1,
            _ => return Err(InvalidRecord::BadExtension),
        };
        let mut payload = rest.slice(length..);
        // Damaged flags are no reference: the seal of the payload decides.
        let is_cold = header
            .flags
            .has(RecordFlags::COLD | RecordFlags::BODY_OUTSIDE);
        let cold = is_cold.then(|| ColdReference::decode(&payload)).flatten();
        if cold.is_some() {
            payload = Bytes::new();
        }
        Ok(Self {
            header,
            extension: rest.slice(..length),
            payload,
            cold,
        })
    }

    /// The header of a record whose other parts are damaged: a job without options and payload.
    ///
    /// # Errors
    /// The header is damaged, or this build does not support the version.
    pub fn header_alone(record: &Bytes) -> Result<Self, InvalidRecord> {
        Ok(Self {
            header: RecordHeader::decode(record)?,
            extension: Bytes::new(),
            payload: Bytes::new(),
            cold: None,
        })
    }

    /// The list of ready jobs of its queue to which the job belongs while it is ready; `None` = the first one.
    pub fn ready_line(&self) -> Option<ReadyLine> {
        let line = ReadyLine {
            queue: self.header.queue,
            priority: self.header.flags.priority().min(PRIORITY_MAX),
            group: self.group_hash(),
        };
        (line.priority > 0 || line.group.is_some()).then_some(line)
    }

    /// The hash of the job's group, if it has one and the extension is not damaged.
    pub fn group_hash(&self) -> Option<GroupHash> {
        let extension = self
            .header
            .flags
            .has(RecordFlags::GROUPED)
            .then_some(&self.extension)?;
        let (extension, _) = RecordExtension::decode(extension).ok()?;
        extension.group_hash
    }

    /// The hash of the job's key, if it has one and the extension is not damaged.
    pub fn key_hash(&self) -> Option<KeyHash> {
        let (extension, _) = RecordExtension::decode(&self.extension).ok()?;
        extension.key_hash.map(KeyHash)
    }

    /// Decodes job `number` of `bucket`. The body shares memory with the payload unless it was compressed.
    ///
    /// # Errors
    /// The payload or the extension is damaged.
    pub fn decode(&self, bucket: u16, number: u64) -> Result<Job, InvalidRecord> {
        let Self {
            header,
            extension,
            payload,
            cold,
        } = self;
        let (attributes, body) = if header.state == JobState::Done {
            // Header and extension are kept, and the result if there is one.
            match payload.is_empty() {
                true => Default::default(),
                false => decode_result(payload, header.nonce)?,
            }
        } else if header.flags.has(RecordFlags::COLD) && cold.is_none() {
            // The seal does not cover this flag.
            return Err(InvalidRecord::Damaged);
        } else {
            let encoded = payload::check_seal(payload, extension, header.flags, header.nonce)?;
            payload::decode(encoded, header.flags.has(RecordFlags::COMPRESSED))?
        };
        Ok(Job {
            attributes,
            body,
            ..self.decode_without_payload(bucket, number)?
        })
    }

    /// Decodes job `number` of `bucket`, which is not done, without its body, and returns how many bytes that has. Of
    /// the payload the beginning suffices. Its seal is not checked, so damage may be unnoticed.
    ///
    /// # Errors
    /// The extension or the beginning of the payload is damaged, or the attributes are not all there.
    pub fn decode_beginning(&self, bucket: u16, number: u64) -> Result<(Job, u64), InvalidRecord> {
        let compressed = self.header.flags.has(RecordFlags::COMPRESSED);
        let (attributes, body_bytes) = beginning::decode(&self.payload, compressed)?;
        let job = Job {
            attributes,
            ..self.decode_without_payload(bucket, number)?
        };
        Ok((job, body_bytes))
    }

    /// Decodes job `number` of `bucket` without its attributes and body, which are empty then.
    ///
    /// # Errors
    /// The extension is damaged.
    pub fn decode_without_payload(&self, bucket: u16, number: u64) -> Result<Job, InvalidRecord> {
        Ok(Job {
            extension: decode_extension(&self.extension)?,
            ..job_of_header(&self.header, bucket, number)
        })
    }
}

fn job_of_header(header: &RecordHeader, bucket: u16, number: u64) -> Job {
    let has = |flags| header.flags.has(flags);
    let failures = has(RecordFlags::COUNTS_FAILURES).then_some(Failures {
        failures: header.tries_left >> 4,
        losses: header.tries_left & 15,
    });
    Job {
        id: header.id(bucket, number),
        body: Bytes::new(),
        attributes: Vec::new(),
        mark: has(RecordFlags::MARK),
        extension: None,
        state: header.state,
        priority: header.flags.priority().min(PRIORITY_MAX),
        failures,
        cancel_requested: has(RecordFlags::CANCEL_REQUESTED),
        has_history: has(RecordFlags::LOGGED),
        tries_left: failures.map_or(header.tries_left, |_| 0),
        attempt: header.attempt,
        created_at_ms: header.created_at_ms,
        due_at_ms: header.due_at_ms,
        run_at_ms: header.due_at_ms,
        expires_at_ms: header.expires_at_ms,
    }
}

fn decode_extension(bytes: &[u8]) -> Result<Option<Box<RecordExtension>>, InvalidRecord> {
    if bytes.is_empty() {
        return Ok(None);
    }
    let (extension, _) = RecordExtension::decode(bytes)?;
    Ok(Some(Box::new(extension)))
}

/// Decodes only the header of the record of job `number` of `bucket`, since the other parts may be damaged. The job
/// has no attributes, no body and no extension.
///
/// # Errors
/// The header is damaged, or this build does not support its version.
pub fn decode_header_only(bucket: u16, number: u64, record: &[u8]) -> Result<Job, InvalidRecord> {
    let header = RecordHeader::decode(record)?;
    Ok(job_of_header(&header, bucket, number))
}

/// Decodes the record of job `number` of `bucket`. `record` is the header, the extension and the payload, even if the
/// payload is stored in a separate key.
///
/// # Errors
/// The record is damaged, or this build does not support its version.
pub fn decode_job(bucket: u16, number: u64, record: Bytes) -> Result<Job, InvalidRecord> {
    RecordParts::split(&record)?.decode(bucket, number)
}
