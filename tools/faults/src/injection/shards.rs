//! Faults of one primary of a cluster, or of logins at one server, while the others work.

use std::time::Duration;

use tidegate_core::keys;
use tidegate_testkit::fault_proxy::{
    DirectionConditions, FaultProxy, ForwardMode, NetworkConditions,
};
use tidegate_testkit::{ClusterGroup, RedisControl};

use super::open_episode::{CALLS_FAIL, MS, OpenEpisode, RECOVERY, TAKEOVER};
use crate::deployment::LEASE_MS;
use crate::fault::PlannedFault;
use crate::history::Episode;
use crate::test_cluster::{BUCKETS, POOL, RedisServers, TestCluster};
use crate::traffic::{LANED, LIMITED_QUEUE, all_queues};

/// After this time requests use the last known answers about tokens and limits, in µs: an API waits for each of them
/// once, for 0.5 s.
const TOKENS_LEFT_OUT: u64 = 2000 * MS;
/// Delay of each chunk to and from a primary that is far away.
const FAR: Duration = Duration::from_millis(150);

/// A primary of a cluster.
struct IsolatedPrimary<'a> {
    number: usize,
    url: String,
    proxy: &'a FaultProxy,
    /// The queues that are on other primaries.
    unaffected_queues: Vec<u16>,
}

impl<'a> IsolatedPrimary<'a> {
    async fn choose(
        test_cluster: &'a TestCluster,
        choose: impl AsyncFn(&ClusterGroup) -> usize,
    ) -> Self {
        let RedisServers::Cluster {
            group,
            proxies: ways,
        } = test_cluster.redis.servers()
        else {
            panic!("this fault is for a cluster");
        };
        let group = group.lock().await;
        let number = choose(&group).await;
        Self {
            number,
            url: group.url(number),
            proxy: &ways[number],
            unaffected_queues: unaffected_queues(test_cluster, &group, number).await,
        }
    }

    async fn any(test_cluster: &'a TestCluster, draw: usize) -> Self {
        Self::choose(test_cluster, async |group| {
            let primaries = group.primaries().await;
            primaries[draw % primaries.len()]
        })
        .await
    }
}

/// Returns the queues of the run that have no jobs on this primary. Queues that may have several lanes are on all
/// primaries. The queue with the rate limit is left out too: its requests wait 2 s until an API counts locally.
async fn unaffected_queues(
    test_cluster: &TestCluster,
    group: &ClusterGroup,
    primary: usize,
) -> Vec<u16> {
    let mut queues = Vec::new();
    for queue in all_queues().filter(|queue| !LANED.contains(queue) && *queue != LIMITED_QUEUE) {
        let slot = group
            .slot_of_bucket(test_cluster.bucket(queue), BUCKETS)
            .await;
        if group.owner_of(slot).await != primary {
            queues.push(queue);
        }
    }
    queues
}

pub(super) async fn isolate_primary(
    test_cluster: &TestCluster,
    fault: &PlannedFault,
) -> Vec<Episode> {
    let primary = IsolatedPrimary::any(test_cluster, fault.target).await;
    isolate(&primary, fault).await
}

pub(super) async fn isolate_token_primary(
    test_cluster: &TestCluster,
    fault: &PlannedFault,
) -> Vec<Episode> {
    let key = keys::tokens(POOL, test_cluster.namespace());
    let primary = IsolatedPrimary::choose(test_cluster, async |group| {
        group.owner_of(group.slot_of(&key).await).await
    });
    isolate(&primary.await, fault).await
}

/// The nodes do not use the proxies among each other, so there is no failover.
async fn isolate(primary: &IsolatedPrimary<'_>, fault: &PlannedFault) -> Vec<Episode> {
    let both = |way: DirectionConditions| NetworkConditions {
        to_server: way,
        to_client: way,
        resets_connections: false,
    };
    let (how, weather) = match fault.variant_of(3) {
        0 => {
            let flow = ForwardMode::Stalls;
            let stalls = DirectionConditions {
                mode: flow,
                ..DirectionConditions::default()
            };
            ("silent", both(stalls))
        }
        1 => {
            let refuses = NetworkConditions {
                resets_connections: true,
                ..NetworkConditions::default()
            };
            ("unreachable", refuses)
        }
        _ => {
            let delay = FAR;
            let far = DirectionConditions {
                delay,
                ..DirectionConditions::default()
            };
            ("slow", both(far))
        }
    };
    let open_episode = OpenEpisode::start(fault);
    primary.proxy.set(weather);
    if weather.resets_connections {
        primary.proxy.cut();
    }
    tokio::time::sleep(fault.length()).await;
    primary.proxy.set(NetworkConditions::default());
    let what = format!("redis-{} was {how}", primary.number);
    vec![Episode {
        unaffected_queues: primary.unaffected_queues.clone(),
        unaffected_from: open_episode.from + TOKENS_LEFT_OUT,
        ..open_episode.end_excusing(what, CALLS_FAIL + RECOVERY)
    }]
}

/// Another pump takes over the buckets there when the membership of the pump on that primary expires.
pub(super) async fn isolate_pump(test_cluster: &TestCluster, fault: &PlannedFault) -> Vec<Episode> {
    let primary = IsolatedPrimary::any(test_cluster, (fault.variant >> 8) as usize).await;
    let pump = &test_cluster.pumps[fault.target % test_cluster.pumps.len()].name;
    let mut control = RedisControl::connect(&primary.url).await;
    let open_episode = OpenEpisode::start(fault);
    control.disable_users(&[pump]).await;
    tokio::time::sleep(fault.length()).await;
    control.enable_users(&[pump]).await;
    let excuses_until = open_episode.from + LEASE_MS * MS + TAKEOVER;
    vec![Episode {
        excuses_until,
        unaffected_queues: primary.unaffected_queues,
        unaffected_from: open_episode.from,
        ..open_episode.end(format!("{pump} rejected by redis-{}", primary.number))
    }]
}

/// A rejected daemon tries again once a second.
pub(super) async fn reject_logins(
    test_cluster: &TestCluster,
    fault: &PlannedFault,
) -> Vec<Episode> {
    let (url, whose, unaffected_queues) = match test_cluster.redis.servers() {
        RedisServers::Cluster { .. } => {
            let primary = IsolatedPrimary::any(test_cluster, fault.target).await;
            let whose = format!("redis-{}", primary.number);
            (primary.url, whose, primary.unaffected_queues)
        }
        _ => {
            let urls = test_cluster.redis.urls().await;
            let number = fault.target % urls.len();
            (urls[number].clone(), format!("redis-{number}"), Vec::new())
        }
    };
    let names: Vec<&str> = test_cluster
        .daemons()
        .map(|pod| pod.name.as_str())
        .collect();
    let mut control = RedisControl::connect(&url).await;
    let open_episode = OpenEpisode::start(fault);
    control.disable_users(&names).await;
    tokio::time::sleep(fault.length()).await;
    control.enable_users(&names).await;
    vec![Episode {
        unaffected_queues,
        unaffected_from: open_episode.from + TOKENS_LEFT_OUT,
        ..open_episode.end_excusing(format!("logins rejected by {whose}"), RECOVERY)
    }]
}
