//! The golden table of the lmstfy wire: every row of the contract as a request and its exact answer.
//!
//! One file for each verb, and one each for names, tokens, paths, queries and HTTP. Where Tidegate deliberately differs
//! from lmstfy, a test calls `better` and a row has a `!`, with the reason: see `target` and `transcript`.
//! `tests/README.md` describes how to run the suite against another server.
#![allow(
    clippy::unwrap_used,
    reason = "helpers of tests fail by panicking, as tests do"
)]

mod accounts;
mod ack;
mod admin;
mod admin_views;
mod attributes;
mod bulk;
mod concurrent_requests;
mod consume;
mod consume_waits;
mod dead_letter;
mod destroy;
mod hashed_tokens;
mod http;
mod limits;
mod names;
mod paths;
mod peek;
mod publish;
mod query;
mod republish;
mod session;
mod size;
mod target;
mod template;
mod tokens;
mod transcript;
