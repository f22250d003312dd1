//! The dashboard in a real browser: every button changes a real Redis.
//!
//! | file | content |
//! |---|---|
//! | `browser` | Chromium and its driver, from Debian's packages, and what a walk does with them |
//! | `webdriver` | the protocol of the driver |
//! | `axe` | axe-core, from PyPI, which finds faults of accessibility |
//! | `fixture` | one deployment for all walks, with a namespace for each |
//!
//! Screenshots of all walks are kept in `target/screenshots`.
#![allow(
    clippy::unwrap_used,
    reason = "helpers of tests fail by panicking, as tests do"
)]

mod access;
mod act;
mod axe;
mod browser;
mod filters;
mod fixture;
mod forged;
mod injection;
mod job;
mod key;
mod live;
mod look;
mod many;
mod news;
mod outage;
mod pages;
mod queue;
mod relay;
mod schedule;
mod webdriver;
