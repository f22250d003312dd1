//! Detects failovers that the harness did not cause: on a busy machine a slow master may be considered
//! down.

use std::convert::Infallible;
use std::sync::atomic::Ordering;
use std::time::Duration;

use crate::fault::Class;
use crate::history::{Episode, Span, UnixMicros, now};
use crate::test_cluster::{RedisBackend, RedisServers, TestCluster};

const LOOK_INTERVAL: Duration = Duration::from_millis(200);
/// Longest time from the silence of the old master to the report of a new one, in µs.
const BEFORE: u64 = 5_000_000;
/// Longest time until the old master is demoted and all replicas follow the new one, in µs.
const AFTER: u64 = 5_000_000;

/// Watches which servers have the jobs; never returns. Calls `note` for each change that the harness
/// did not cause.
pub(crate) async fn watch(test_cluster: &TestCluster, note: impl Fn(Episode)) -> Infallible {
    let mut known: Option<(PrimarySet, UnixMicros)> = None;
    loop {
        let leaders = read_primaries(&test_cluster.redis).await;
        if let Some((before, at)) = known
            && before.servers != leaders.servers
            && before.failovers == leaders.failovers
        {
            note(episode(at));
        }
        known = Some((leaders, now()));
        tokio::time::sleep(LOOK_INTERVAL).await;
    }
}

/// The servers that have the jobs, and the number of failovers that the harness has caused.
struct PrimarySet {
    servers: Vec<usize>,
    failovers: usize,
}

/// Reads both while no fault injection can change them.
async fn read_primaries(backend: &RedisBackend) -> PrimarySet {
    let made = || backend.failovers.load(Ordering::Relaxed);
    match backend.servers() {
        RedisServers::Alone(_) => std::future::pending().await,
        RedisServers::Watched(group) => {
            let group = group.lock().await;
            let failovers = made();
            let servers = vec![group.master_seen_by(0).await];
            PrimarySet { servers, failovers }
        }
        RedisServers::Cluster { group, .. } => {
            let group = group.lock().await;
            let failovers = made();
            let servers = group.primaries().await;
            PrimarySet { servers, failovers }
        }
    }
}

/// Returns the episode of a failover that happened after `last_same`, the last check with the old
/// master.
fn episode(last_same: UnixMicros) -> Episode {
    let span = Span {
        from: last_same - BEFORE,
        to: now() + AFTER,
    };
    Episode {
        class: Class::Failover,
        what: "unexpected failover".to_owned(),
        span,
        excuses_until: span.to,
        may_lose: Some(span),
        unaffected_queues: Vec::new(),
        unaffected_from: 0,
        idle_closed: Vec::new(),
    }
}
