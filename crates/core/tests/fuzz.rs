//! What must hold of the codec, of ids and names whatever the bytes are, held without a fuzzer (`fuzz/`).
#![allow(
    clippy::unwrap_used,
    reason = "a test that fails should say so at once"
)]

#[path = "../../../fuzz/checks.rs"]
mod checks;
#[path = "../../../fuzz/corpora.rs"]
mod corpora;

use corpora::holds;

#[test]
fn whatever_bytes_come_as_a_record() {
    holds("record", checks::record);
}

#[test]
fn whatever_text_comes_as_an_id() {
    holds("job_id", checks::job_id);
}

#[test]
fn whatever_text_comes_as_a_name() {
    holds("name", checks::name);
}
