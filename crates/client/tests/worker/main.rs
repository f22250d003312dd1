//! The client and the worker, tested with real servers.
#![allow(
    clippy::unwrap_used,
    reason = "helpers of tests fail by panicking, as tests do"
)]

mod faults;
mod fixture;
mod handlers;
mod leases;
mod publish;
mod schedules;
