//! Whole records: encoding new jobs for the script that publishes, and decoding stored jobs.

use bytes::Bytes;

use super::bad_record::InvalidRecord;
use super::header::{HEADER_BYTES, RecordFlags, RecordHeader};
use super::payload;
use crate::{Job, JobState, NewJob};

/// A new job as the script that publishes takes it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewRecord {
    /// The encoded header, with the delay and the time to live instead of the due time and the expiry.
    pub header: [u8; HEADER_BYTES],
    /// The encoded payload with its seal.
    pub payload: Vec<u8>,
}

/// Encodes a new job. A payload with more than `inline_limit_bytes` bytes, seal included, gets the flag
/// [`RecordFlags::BODY_OUTSIDE`]; one with at least `compress_from_bytes` bytes is compressed if that makes it smaller.
#[must_use]
pub fn encode_new_job(
    job: &NewJob,
    nonce: u16,
    inline_limit_bytes: usize,
    compress_from_bytes: usize,
) -> NewRecord {
    let (mut payload, compressed) =
        payload::encode(&job.attributes, &job.body, compress_from_bytes);
    let stored_bytes = payload.len() + payload::SEAL_BYTES;
    let flags = RecordFlags::COMPRESSED.when(compressed)
        | RecordFlags::BODY_OUTSIDE.when(stored_bytes > inline_limit_bytes)
        | RecordFlags::MARK.when(job.mark);
    payload::add_seal(&mut payload, flags, nonce);
    let header = RecordHeader {
        state: if job.delay_ms > 0 {
            JobState::Delayed
        } else {
            JobState::Ready
        },
        flags,
        tries_left: job.tries,
        attempt: 0,
        queue: 0,
        created_at_ms: 0,
        due_at_ms: job.delay_ms,
        expires_at_ms: job.ttl_ms,
        nonce,
    };
    NewRecord {
        header: header.encode(),
        payload,
    }
}

/// Decodes the record of job `number` of `bucket`. `record` is the header followed by the payload, even if the payload
/// is stored in a separate key.
///
/// # Errors
/// The record is damaged, or this build does not support its version.
pub fn decode_job(bucket: u16, number: u64, record: Bytes) -> Result<Job, InvalidRecord> {
    let header = RecordHeader::decode(&record)?;
    decode_parts(bucket, number, &header, record.slice(HEADER_BYTES..))
}

/// Decodes job `number` of `bucket` from its header and its payload. The body shares memory with `payload` unless it
/// was compressed.
///
/// # Errors
/// The payload is damaged.
pub fn decode_parts(
    bucket: u16,
    number: u64,
    header: &RecordHeader,
    payload: Bytes,
) -> Result<Job, InvalidRecord> {
    let encoded = payload::check_seal(&payload, header.flags, header.nonce)?;
    let compressed = header.flags.has(RecordFlags::COMPRESSED);
    let (attributes, body) = payload::decode(encoded, compressed)?;
    Ok(Job {
        id: header.id(bucket, number),
        body,
        attributes,
        mark: header.flags.has(RecordFlags::MARK),
        state: header.state,
        tries_left: header.tries_left,
        attempt: header.attempt,
        created_at_ms: header.created_at_ms,
        due_at_ms: header.due_at_ms,
        expires_at_ms: header.expires_at_ms,
    })
}
