//! Every way to reach a Redis: through sentinels that name the master, through nodes of a cluster, over
//! TLS, as a user with few rights, over a socket of the file system.
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
mod failover;
mod fleet;
mod lanes_beside;
mod login_refused;
mod refused;
mod sentinels;
mod slots_move;
mod users;

use tokio::sync::{Semaphore, SemaphorePermit};

/// One test with a failover at a time: each has some ten processes, and sentinels that are kept from
/// running see failures where there are none.
async fn turn() -> SemaphorePermit<'static> {
    static TURNS: Semaphore = Semaphore::const_new(1);
    TURNS.acquire().await.unwrap()
}
