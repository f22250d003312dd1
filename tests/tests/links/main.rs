//! Every way to reach a Redis: through sentinels, through nodes of a cluster, over TLS, as a user with few rights, over
//! a Unix socket.
#![allow(
    clippy::unwrap_used,
    reason = "helpers of tests fail by panicking, as tests do"
)]

mod cluster;
mod cluster_audit;
mod cluster_consumers;
mod cluster_failover;
mod cluster_pumps;
mod cluster_silent;
mod cluster_tls;
mod dead_shard;
mod direct;
mod durability;
mod durability_failures;
mod endpoint_switch;
mod failover;
mod fleet;
mod lanes_beside;
mod login_refused;
mod refused;
mod sentinel_example;
mod sentinels;
mod slots_move;
mod slots_of_tables;
mod users;

use tokio::sync::{Semaphore, SemaphorePermit};

/// Three tests with a failover at a time: each has about ten processes, and sentinels that get no CPU time see failures
/// that are none.
async fn turn() -> SemaphorePermit<'static> {
    static TURNS: Semaphore = Semaphore::const_new(3);
    TURNS.acquire().await.unwrap()
}
