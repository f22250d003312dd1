//! Metrics and the access log.
#![allow(
    clippy::unwrap_used,
    reason = "helpers of tests fail by panicking, as tests do"
)]

mod access_log;
mod bounds;
mod documents;
mod exposition;
mod figures;
mod golden;
mod lint;
mod sizes;
