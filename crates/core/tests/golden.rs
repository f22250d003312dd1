//! Golden files of the record format, one for each layout version. If a test fails, stored jobs can no longer be read.
//! `tidegate_core::codec` describes how to change the format.

#![allow(
    clippy::unwrap_used,
    reason = "a test that fails should say so at once"
)]

use bytes::Bytes;
use tidegate_core::codec::{
    HEADER_BYTES, InvalidRecord, RecordFlags, RecordHeader, decode_job, encode_new_job,
};
use tidegate_core::{JobState, NativeOptions, NewJob};

const RECORD_V2: &str = include_str!("golden/record-v2.hex");

fn bytes_of(hex: &str) -> Vec<u8> {
    let digits: String = hex.lines().filter(|line| !line.starts_with('#')).collect();
    let digits: Vec<char> = digits.chars().filter(|c| !c.is_whitespace()).collect();
    let byte = |pair: &[char]| u8::from_str_radix(&pair.iter().collect::<String>(), 16).unwrap();
    digits.chunks(2).map(byte).collect()
}

fn header_v2() -> RecordHeader {
    RecordHeader {
        state: JobState::Leased,
        flags: RecordFlags::MARK,
        tries_left: 2,
        attempt: 3,
        queue: 0x0102_0304,
        created_at_ms: 1_763_700_000_123,
        due_at_ms: 1_763_700_060_456,
        expires_at_ms: 1_763_786_400_123,
        nonce: 0xBEEF,
    }
}

fn job(body: &[u8]) -> NewJob {
    NewJob {
        body: Bytes::copy_from_slice(body),
        attributes: vec![("color".into(), "blue".into())],
        delay_ms: 0,
        ttl_ms: 0,
        tries: 1,
        mark: true,
        native: None,
    }
}

#[test]
fn version_2_is_written_as_pinned() {
    let mut record = header_v2().encode().to_vec();
    record.extend(encode_new_job(&job(b"hello"), 0xBEEF, 1024, 1024).payload);
    assert_eq!(record, bytes_of(RECORD_V2));
}

#[test]
fn a_priority_is_three_bits_of_the_flags() {
    for (priority, flags) in [
        (0, 0x0000),
        (1, 0x0200),
        (2, 0x0400),
        (3, 0x0600),
        (4, 0x0800),
    ] {
        let native = NativeOptions {
            priority,
            ..NativeOptions::default()
        };
        let job = NewJob {
            mark: false,
            native: Some(Box::new(native)),
            ..job(b"hello")
        };
        let header = encode_new_job(&job, 0xBEEF, 1024, 1024).header;
        let written = RecordHeader::decode(&header).unwrap().flags;
        assert_eq!(
            (written, written.priority()),
            (RecordFlags(flags), priority)
        );
    }
}

#[test]
fn version_2_is_read_as_pinned() {
    let record = bytes_of(RECORD_V2);
    assert_eq!(RecordHeader::decode(&record), Ok(header_v2()));
    let read = decode_job(9, 4711, record.into()).unwrap();
    assert_eq!(read.body, "hello");
    assert_eq!(read.attributes, vec![("color".into(), "blue".into())]);
    assert!(read.mark);
    assert_eq!(
        (read.id.bucket(), read.id.number(), read.id.nonce()),
        (9, 4711, 0xBEEF)
    );
    assert_eq!(read.id.created_at_ms(), 1_763_700_000_123);
}

#[test]
fn a_large_payload_is_compressed_and_round_trips() {
    let body = b"abcdefgh".repeat(1000);
    let record = encode_new_job(&job(&body), 7, 1024, 1024);
    assert!(record.payload.len() < body.len() / 10);
    let header = RecordHeader::decode(&record.header).unwrap();
    assert!(
        header.flags.has(RecordFlags::COMPRESSED) && !header.flags.has(RecordFlags::BODY_OUTSIDE)
    );
    let whole = [&record.header[..], &record.payload].concat();
    assert_eq!(decode_job(0, 1, whole.into()).unwrap().body, body);
}

#[test]
fn a_payload_above_the_inline_limit_is_flagged() {
    let record = encode_new_job(&job(&[7; 100]), 7, 50, usize::MAX);
    assert!(
        RecordHeader::decode(&record.header)
            .unwrap()
            .flags
            .has(RecordFlags::BODY_OUTSIDE)
    );
}

#[test]
fn damaged_records_are_rejected() {
    let good = bytes_of(RECORD_V2);
    let refused = |record: Vec<u8>| decode_job(0, 1, record.into()).unwrap_err();
    assert_eq!(
        refused(good[..HEADER_BYTES - 1].to_vec()),
        InvalidRecord::TooShort
    );
    assert_eq!(
        refused(good[..=HEADER_BYTES].to_vec()),
        InvalidRecord::Damaged
    );
    assert_eq!(
        refused([&good[..], b"more"].concat()),
        InvalidRecord::Damaged
    );
    let with = |at: usize, byte: u8| {
        let mut record = good.clone();
        record[at] = byte;
        record
    };
    assert_eq!(refused(with(0, 9)), InvalidRecord::UnknownVersion(9));
    assert_eq!(refused(with(1, 0)), InvalidRecord::UnknownState(0));
}

/// Whether scripts set or change this byte of a record, so that the seal does not cover it: state, flags that change,
/// and the rest of the header after the flags.
fn is_unsealed(at: usize) -> bool {
    matches!(at, 1 | 2 | 4..32)
}

#[test]
fn every_changed_byte_is_detected() {
    let compressed = encode_new_job(&job(&b"abcdefgh".repeat(30)), 7, 1024, 100);
    let compressed = [&compressed.header[..], &compressed.payload].concat();
    for good in [bytes_of(RECORD_V2), compressed] {
        assert!(decode_job(0, 1, good.clone().into()).is_ok());
        let sealed = (0..good.len()).filter(|at| !is_unsealed(*at));
        for (at, change) in sealed.flat_map(|at| (1..=u8::MAX).map(move |change| (at, change))) {
            let mut bad = good.clone();
            bad[at] ^= change;
            let read = decode_job(0, 1, bad.into());
            assert!(read.is_err(), "byte {at} changed by {change:#x}: {read:?}");
        }
    }
}
