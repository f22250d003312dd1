//! The checks of the fuzz targets for records, ids and names, without a fuzzer: on the corpora in `fuzz/` and on random
//! bytes.
#![allow(
    clippy::unwrap_used,
    reason = "a test that fails should say so at once"
)]

#[path = "../../../fuzz/checks.rs"]
mod checks;
#[path = "../../../fuzz/corpora.rs"]
mod corpora;

use corpora::check_corpus;

#[test]
fn records_of_any_bytes_are_handled() {
    check_corpus("record", checks::record);
}

#[test]
fn ids_of_any_text_are_handled() {
    check_corpus("job_id", checks::job_id);
}

#[test]
fn names_of_any_text_are_handled() {
    check_corpus("name", checks::name);
}
