//! Queues with several lanes, tested with real processes.
#![allow(
    clippy::unwrap_used,
    reason = "helpers of tests fail by panicking, as tests do"
)]

mod admin;
mod counts;
mod fairness;
mod fixture;
mod groups;
mod keys;
mod slow_link;
mod stalled_publish;
mod traffic;
mod verbs;
