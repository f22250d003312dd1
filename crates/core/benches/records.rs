//! Benchmarks of records and ids. `cargo bench -p tidegate-core` measures them; `cargo test` runs each once.

use bytes::Bytes;
use divan::Bencher;
use tidegate_core::codec::{decode_job, encode_new_job};
use tidegate_core::{JobId, NewJob};

/// Two bodies that are stored uncompressed in the record, and one that is compressed.
const BODY_BYTES: [usize; 3] = [100, 1000, 10_000];
const INLINE_LIMIT_BYTES: usize = 1024;
const COMPRESS_FROM_BYTES: usize = 1024;

fn main() {
    divan::main();
}

fn job(bytes: usize) -> NewJob {
    NewJob {
        body: Bytes::from(vec![b'x'; bytes]),
        attributes: Vec::new(),
        delay_ms: 1000,
        ttl_ms: 86_400_000,
        tries: 3,
        mark: false,
        native: None,
    }
}

#[divan::bench(args = BODY_BYTES)]
fn encode(bencher: Bencher<'_, '_>, bytes: usize) {
    let job = job(bytes);
    bencher.bench(|| encode_new_job(&job, 7, INLINE_LIMIT_BYTES, COMPRESS_FROM_BYTES));
}

#[divan::bench(args = BODY_BYTES)]
fn decode(bencher: Bencher<'_, '_>, bytes: usize) {
    let record = encode_new_job(&job(bytes), 7, INLINE_LIMIT_BYTES, COMPRESS_FROM_BYTES);
    let record = Bytes::from([&record.header[..], &record.payload].concat());
    bencher.bench(|| decode_job(3, 1_000_001, record.clone()));
}

#[divan::bench]
fn show_id() -> String {
    divan::black_box(JobId::new(1_763_700_000_123, 3, 1_000_001, 7)).to_string()
}

#[divan::bench]
fn parse_id(bencher: Bencher<'_, '_>) {
    let text = show_id();
    bencher.bench(|| JobId::try_from(text.as_str()));
}
