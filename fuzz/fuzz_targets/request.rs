//! Parses any bytes as a request of the lmstfy wire. The properties are in
//! `crates/api/src/lmstfy/fuzz.rs`.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| tidegate_api::fuzz::request(bytes));
