//! API keys on a real Redis: authentication, revocation and expiry, also for consumers that wait. Two engines on one
//! Redis stand for two processes.

#![allow(
    clippy::unwrap_used,
    reason = "a test that fails should say so at once"
)]

mod authentication;
mod fixture;
mod outages;
mod revocation;
