//! What is refused, how it is said, and what it costs.
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
