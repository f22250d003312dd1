//! The golden table of the lmstfy wire: every row of the contract as a request and its exact answer.
//!
//! One file a verb, and one each for what is common to all: names, tokens, paths, queries, the HTTP
//! underneath. Where Tidegate deliberately does better than lmstfy, a test asks `better` and a row has a
//! `!`, with the reason: see `target` and `transcript`. How to aim the suite at another server is told in
//! `tests/README.md`.
#![allow(
    clippy::unwrap_used,
    reason = "helpers of tests fail by panicking, as tests do"
)]

mod accounts;
mod ack;
mod admin;
mod admin_views;
mod at_once;
mod attributes;
mod bulk;
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
