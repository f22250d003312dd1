//! Any bytes as a request of the lmstfy wire. What must hold is in `crates/api/src/lmstfy/fuzz.rs`.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| tidegate_api::fuzz::request(bytes));
