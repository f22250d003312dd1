//! Whole records: a new job on its way to a script, a job on its way out.

use bytes::Bytes;

use super::{BadRecord, Flags, HEADER_BYTES, Header, payload};
use crate::{Job, JobId, NewJob, State};

/// What the script that publishes is given of a job.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewRecord {
    /// A header with the delay and the time to live in place of the instants.
    pub header: [u8; HEADER_BYTES],
    /// The encoded payload with its seal.
    pub payload: Vec<u8>,
}

/// Encodes a new job. A payload above `inline_limit_bytes` is flagged to be stored outside of the
/// record; one of at least `compress_from_bytes` is compressed when that makes it smaller.
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
    let flags = Flags::COMPRESSED.when(compressed)
        | Flags::BODY_OUTSIDE.when(stored_bytes > inline_limit_bytes)
        | Flags::VERSIONED_ID.when(job.versioned_id);
    payload::add_seal(&mut payload, flags, nonce);
    let header = Header {
        state: if job.delay_ms > 0 {
            State::Delayed
        } else {
            State::Ready
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

/// Decodes the record of job `number` of `bucket`; `record` is the header followed by the payload,
/// wherever the payload was stored.
///
/// # Errors
/// The bytes are not a record that this build can read.
pub fn decode_job(bucket: u16, number: u64, record: Bytes) -> Result<Job, BadRecord> {
    let header = Header::decode(&record)?;
    decode_parts(bucket, number, &header, record.slice(HEADER_BYTES..))
}

/// Decodes job `number` of `bucket` from its header and its payload, where these came apart. The body shares
/// the memory of `payload` unless it was compressed.
///
/// # Errors
/// The payload is none that this build can read.
pub fn decode_parts(
    bucket: u16,
    number: u64,
    header: &Header,
    payload: Bytes,
) -> Result<Job, BadRecord> {
    let encoded = payload::break_seal(&payload, header.flags, header.nonce)?;
    let compressed = header.flags.has(Flags::COMPRESSED);
    let (attributes, body) = payload::decode(encoded, compressed)?;
    Ok(Job {
        id: JobId::new(header.created_at_ms, bucket, number, header.nonce),
        body,
        attributes,
        versioned_id: header.flags.has(Flags::VERSIONED_ID),
        state: header.state,
        tries_left: header.tries_left,
        attempt: header.attempt,
        created_at_ms: header.created_at_ms,
        due_at_ms: header.due_at_ms,
        expires_at_ms: header.expires_at_ms,
    })
}
