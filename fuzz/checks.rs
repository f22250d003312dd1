//! What must hold whatever the bytes are. The fuzzer calls these with bytes that it makes up, and
//! `crates/core/tests/fuzz.rs` with the corpora and with random bytes.

use std::str::from_utf8;

use tidegate_core::codec::{Flags, HEADER_BYTES, Header, decode_job, encode_new_job};
use tidegate_core::{JobId, NewJob, QueueKey, QueueName, State};

/// Where the flags stand in a header, and the nonce.
const SEALED_FIELDS: [std::ops::Range<usize>; 2] = [2..4, 32..34];

/// Bytes that are a record are written as they were read; and a job that is made of the bytes comes back,
/// unless one of its sealed bytes has changed.
pub(crate) fn record(bytes: &[u8]) {
    if let Ok(header) = Header::decode(bytes) {
        assert_eq!(header.encode()[..], bytes[..HEADER_BYTES]);
    }
    if let Ok(job) = decode_job(7, 1, bytes.to_vec().into()) {
        assert!(State::ALL.contains(&job.state));
        assert!(job.body.len() <= tidegate_core::codec::PAYLOAD_BYTES_MAX);
    }
    let (limits, body) = bytes.split_at(bytes.len().min(3));
    let [inline, compress, at] = [0, 1, 2].map(|n| limits.get(n).copied().map_or(0, usize::from));
    let job = NewJob {
        body: body.to_vec().into(),
        attributes: vec![("key".into(), String::from_utf8_lossy(body).into_owned())],
        delay_ms: inline as u64,
        ttl_ms: compress as u64,
        tries: 1,
        versioned_id: at % 2 == 0,
    };
    comes_back(&job, inline, compress, at);
}

fn comes_back(job: &NewJob, inline: usize, compress: usize, at: usize) {
    let record = encode_new_job(job, 0xBEEF, inline, compress);
    let whole = [&record.header[..], &record.payload].concat();
    let read = decode_job(7, 1, whole.clone().into()).expect("a record that was just written");
    assert_eq!((&read.body, &read.attributes), (&job.body, &job.attributes));
    let outside = record.payload.len() > inline;
    let header = Header::decode(&whole).expect("a header that was just written");
    assert_eq!(header.flags.has(Flags::BODY_OUTSIDE), outside);
    let sealed = SEALED_FIELDS
        .into_iter()
        .flatten()
        .chain(HEADER_BYTES..whole.len());
    let sealed: Vec<usize> = sealed.collect();
    let mut damaged = whole;
    damaged[sealed[at % sealed.len()]] ^= 1 << (at % 8);
    assert!(decode_job(7, 1, damaged.into()).is_err());
}

/// A text that is an id is the one text of that id, and its parts make it up.
pub(crate) fn job_id(bytes: &[u8]) {
    let Some(id) = from_utf8(bytes)
        .ok()
        .and_then(|text| text.parse::<JobId>().ok())
    else {
        return;
    };
    assert_eq!(id.to_string().as_bytes(), bytes);
    let same = JobId::new(id.created_at_ms(), id.bucket(), id.number(), id.nonce());
    assert_eq!(same, id);
}

/// A text that is a name, or a queue of a namespace, is shown as it was written.
pub(crate) fn name(bytes: &[u8]) {
    let Ok(text) = from_utf8(bytes) else { return };
    if let Ok(name) = QueueName::try_from(text) {
        assert_eq!(name.as_str(), text);
        assert!(!text.is_empty() && text.len() <= tidegate_core::NAME_BYTES_MAX);
    }
    if let Ok(key) = QueueKey::try_from(text) {
        assert_eq!(key.to_string(), text);
        assert_eq!(text.matches('/').count(), 1);
    }
}
