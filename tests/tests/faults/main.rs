//! Things break, and no job is lost, doubled or early.
//!
//! Each test has a Redis and daemons of its own, and ends with a look at everything that is stored. Which
//! job gets which fate is drawn from a printed seed; what the machine does at which moment is not.
#![allow(
    clippy::unwrap_used,
    reason = "helpers of tests fail by panicking, as tests do"
)]

mod abandoned_requests;
mod api_killed;
mod audited;
mod clocks;
mod crowd;
mod doorbells_lost;
mod half_open;
mod hang_ups;
mod jobs;
mod leases;
mod ledger;
mod memory_full;
mod parked;
mod pool_moves;
mod pumps_disturbed;
mod redis_away;
mod redis_silent;
mod revoked_tokens;
mod seats_kept;
mod shares;
mod slow_link;
mod stops;
mod workers;

use tokio::sync::{Semaphore, SemaphorePermit};

/// Two tests at a time: more would only make each other slow.
async fn turn() -> SemaphorePermit<'static> {
    static TURNS: Semaphore = Semaphore::const_new(2);
    TURNS.acquire().await.unwrap()
}
