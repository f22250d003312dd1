//! The commands of Youzan's delay queue, tested with real processes.
#![allow(
    clippy::unwrap_used,
    reason = "helpers of tests fail by panicking, as tests do"
)]

mod access;
mod bad_requests;
mod clients;
mod commands;
mod directory;
mod document;
mod fixture;
mod outages;
mod paths;
mod pools;
mod quotas;
mod topics;
