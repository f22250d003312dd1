//! The address of Redis leads to another server, as with a virtual address or a Service of Kubernetes.

use std::time::Duration;

use tidegate_testkit::RedisControl;

use super::open_episode::{OpenEpisode, RECOVERY, REPLICATION};
use crate::fault::PlannedFault;
use crate::history::{Episode, Span, now};
use crate::test_cluster::{RedisServers, TestCluster};

/// Longest time for which the old master accepts writes after the promotion of the new one.
const UNDETECTED_MAX_MS: u32 = 300;
/// How long the old master answers no writes in a planned switch, at most.
const WRITES_PAUSED: Duration = Duration::from_secs(10);

/// New connections lead to the standby, which becomes the master. The old master becomes its replica and keeps its
/// connections. In a planned switch the old master takes no writes before, so nothing is lost. In the other one, the
/// writes that the standby does not have are lost.
pub(super) async fn switch(test_cluster: &TestCluster, fault: &PlannedFault) -> Vec<Episode> {
    let RedisServers::Alone(servers) = test_cluster.redis.servers() else {
        panic!("this fault is for a Redis without sentinels");
    };
    let number = fault.target % servers.len();
    let server = &servers[number];
    let Some(standby) = &server.standby else {
        panic!("a run with this fault has a standby");
    };
    let (mut master, mut standby) = (server.redis.lock().await, standby.lock().await);
    let mut old = RedisControl::connect(&master.url()).await;
    let mut new = RedisControl::connect(&standby.url()).await;
    new.wait_until_in_sync().await;
    let open_episode = OpenEpisode::start(fault);
    let from = open_episode.from;
    let is_planned = fault.variant_of(2) == 0;
    if is_planned {
        old.pause_writes(WRITES_PAUSED).await;
        new.wait_until_at(old.replication_offset().await).await;
    }
    for pod in test_cluster.daemons() {
        pod.redis_proxies[number].lead_to(standby.address());
    }
    new.replicate(None).await;
    if !is_planned {
        let undetected_ms = (fault.variant >> 1) % UNDETECTED_MAX_MS;
        tokio::time::sleep(Duration::from_millis(undetected_ms.into())).await;
    }
    old.replicate(Some(standby.address())).await;
    old.resume_clients().await;
    let demoted = now();
    std::mem::swap(&mut *master, &mut *standby);
    server.set_address(master.address());
    drop((master, standby));
    tokio::time::sleep(fault.length()).await;
    let how = if is_planned { ", planned" } else { "" };
    let episode = open_episode.end(format!("the endpoint switched{how}"));
    vec![Episode {
        excuses_until: demoted + RECOVERY,
        may_lose: (!is_planned).then_some(Span {
            from: from - REPLICATION,
            to: demoted,
        }),
        ..episode
    }]
}
