//! Runs the checks of the fuzz target `request` (`fuzz/`) without a fuzzer: over its corpus, variations of it, and
//! random bytes.
#![allow(clippy::unwrap_used, reason = "a test fails by a panic")]

#[path = "../../../fuzz/corpora.rs"]
mod corpora;

use corpora::check_corpus;

#[test]
fn the_checks_of_the_request_target_hold() {
    check_corpus("request", tidegate_api::fuzz::request);
}
