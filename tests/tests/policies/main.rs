//! Policies of queues, tested with real processes: the routes of the admin port, and their effects on publishes and
//! consumers.
#![allow(
    clippy::unwrap_used,
    reason = "helpers of tests fail by panicking, as tests do"
)]

mod admin;
mod fixture;
mod full;
mod paused;
mod rates;
mod running;
mod unavailable;
