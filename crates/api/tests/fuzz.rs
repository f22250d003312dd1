//! What must hold of a request however it is written, held without a fuzzer (`fuzz/`).
#![allow(
    clippy::unwrap_used,
    reason = "a test that fails should say so at once"
)]

#[path = "../../../fuzz/corpora.rs"]
mod corpora;

use corpora::holds;

#[test]
fn whatever_comes_as_a_request() {
    holds("request", tidegate_api::fuzz::request);
}
