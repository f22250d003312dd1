//! Queues with several lanes, through real processes.
#![allow(
    clippy::unwrap_used,
    reason = "helpers of tests fail by panicking, as tests do"
)]

mod admin;
mod counts;
mod fairness;
mod fixture;
mod stalled_publish;
mod traffic;
mod verbs;
