//! Several Redis deployments behind one API: jobs and tokens stay apart, and a pool moves to another
//! while it is in use.
#![allow(
    clippy::unwrap_used,
    reason = "helpers of tests fail by panicking, as tests do"
)]

mod admin_store_down;
mod both;
mod keyed;
mod routing;
mod same_redis;

/// The setting of an API for a move from pool default to pool new.
const DEFAULT_MOVES: &str = "[pool.default]\nmigrate_to = \"new\"";
