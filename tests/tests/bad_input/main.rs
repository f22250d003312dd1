//! Invalid and excessive input: which of it is refused, with which errors, and how much memory it can take.
#![allow(
    clippy::unwrap_used,
    reason = "helpers of tests fail by panicking, as tests do"
)]

mod admin_port;
mod bodies;
mod config;
mod connections;
mod every_key;
mod heads;
mod large_bulks;
mod limits;
mod memory;
mod ports;
mod redis_refused;
mod slow;
mod unread;
mod unread_answers;
