//! Processes, connections and Redis fail, and no job is lost, duplicated or early.
//!
//! Each test has its own Redis and daemons, and ends with a check of all stored data. Random choices come from a
//! printed seed; the timing of the machine does not.
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
mod memory_full;
mod parked;
mod pool_moves;
mod pumps_disturbed;
mod redis_silent;
mod redis_unavailable;
mod revoked_tokens;
mod schedules;
mod seats_kept;
mod shares;
mod slow_link;
mod stops;
mod tracker;
mod workers;
