//! How late jobs are, also behind late messages, how fast consumers are woken, and the cost of a waiting consumer.
//!
//! The figures are printed; the bounds that are asserted leave room for a busy machine. One test runs at a time, since
//! other load would change the figures.
#![allow(
    clippy::unwrap_used,
    reason = "helpers of tests fail by panicking, as tests do"
)]

mod backlogs;
mod figures;
mod idle;
mod late_messages;
mod lateness;
mod many_names;
mod many_processes;
mod many_waiters;
mod wake_ups;

use tokio::sync::{Mutex, MutexGuard};

/// Keeps the other tests of this program from running.
async fn alone() -> MutexGuard<'static, ()> {
    static RUNNING: Mutex<()> = Mutex::const_new(());
    RUNNING.lock().await
}
