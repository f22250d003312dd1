//! Network faults between daemons and Redis, and between clients and APIs.

use std::time::Duration;

use tidegate_testkit::fault_proxy::{
    DirectionConditions, FaultProxy, ForwardMode, NetworkConditions,
};

use super::open_episode::{MS, OpenEpisode, RECOVERY, SILENCE_NOTICED, repeat_for};
use crate::deployment::LEASE_MS;
use crate::fault::PlannedFault;
use crate::history::Episode;
use crate::test_cluster::{RedisServers, TestCluster};

const CUT_PAUSE: Duration = Duration::from_millis(300);
/// Pause between two cuts: long enough for requests to succeed in between.
const CLIENT_CUT_PAUSE: Duration = Duration::from_millis(700);
const DELAY_MAX_MS: u32 = 60;
/// Timeout of a call, in µs.
const CALL_LIMIT: u64 = 3000 * MS;

/// The proxies that a fault affects, and the names of their daemons or servers.
struct AffectedProxies<'a> {
    links: Vec<&'a FaultProxy>,
    names: String,
}

/// Selects one proxy to Redis, or all of them in a quarter of the cases. Each daemon has separate proxies; on a cluster
/// each primary has one, which all daemons share.
async fn choose_proxies<'a>(
    test_cluster: &'a TestCluster,
    fault: &PlannedFault,
) -> AffectedProxies<'a> {
    let mut links: Vec<(String, &FaultProxy)> = match test_cluster.redis.servers() {
        RedisServers::Cluster {
            group,
            proxies: ways,
        } => {
            let primaries = group.lock().await.primaries().await;
            let primaries = primaries.into_iter();
            primaries
                .map(|it| (format!("redis-{it}"), &ways[it]))
                .collect()
        }
        _ => {
            let links = test_cluster.daemons().flat_map(|pod| {
                pod.redis_proxies
                    .iter()
                    .map(|link| (pod.name.clone(), link))
            });
            links.collect()
        }
    };
    if fault.variant_of(4) != 0 {
        links = vec![links.swap_remove(fault.target % links.len())];
    }
    let (mut names, links): (Vec<String>, _) = links.into_iter().unzip();
    names.dedup();
    AffectedProxies {
        links,
        names: names.join(", "),
    }
}

async fn apply_for(links: &[&FaultProxy], weather: NetworkConditions, length: Duration) {
    links.iter().for_each(|link| link.set(weather));
    tokio::time::sleep(length).await;
    links
        .iter()
        .for_each(|link| link.set(NetworkConditions::default()));
}

/// A job needs many sequential calls, each of which is delayed.
pub(super) async fn delay(test_cluster: &TestCluster, fault: &PlannedFault) -> Vec<Episode> {
    let met = choose_proxies(test_cluster, fault).await;
    let way = |ms: u32| DirectionConditions {
        mode: ForwardMode::Passes,
        delay: Duration::from_millis(u64::from(ms % DELAY_MAX_MS)),
        jitter: Duration::from_millis(u64::from(ms / DELAY_MAX_MS % DELAY_MAX_MS)),
        bytes_per_second: None,
    };
    let weather = NetworkConditions {
        to_server: way(fault.variant >> 4),
        to_client: way(fault.variant >> 16),
        resets_connections: false,
    };
    let open_episode = OpenEpisode::start(fault);
    apply_for(&met.links, weather, fault.length()).await;
    vec![open_episode.end_excusing(format!("slow network at {}", met.names), 0)]
}

pub(super) async fn cut(test_cluster: &TestCluster, fault: &PlannedFault) -> Vec<Episode> {
    let met = choose_proxies(test_cluster, fault).await;
    let open_episode = OpenEpisode::start(fault);
    repeat_for(fault.length(), CUT_PAUSE, async || {
        met.links.iter().for_each(|link| link.cut());
    })
    .await;
    vec![open_episode.end_excusing(format!("connections of {} reset", met.names), RECOVERY)]
}

/// Silent calls are detected soon, a silent subscription only by its next ping.
pub(super) async fn make_half_open(
    test_cluster: &TestCluster,
    fault: &PlannedFault,
) -> Vec<Episode> {
    let met = choose_proxies(test_cluster, fault).await;
    let open_episode = OpenEpisode::start(fault);
    met.links.iter().for_each(|link| link.make_half_open());
    tokio::time::sleep(fault.length()).await;
    let noticed = SILENCE_NOTICED.saturating_sub(fault.length_ms * MS) + RECOVERY;
    vec![open_episode.end_excusing(format!("connections of {} half open", met.names), noticed)]
}

/// Redis executes calls, and their replies are dropped.
pub(super) async fn drop_replies(test_cluster: &TestCluster, fault: &PlannedFault) -> Vec<Episode> {
    let met = choose_proxies(test_cluster, fault).await;
    let weather = NetworkConditions {
        to_client: DirectionConditions {
            mode: ForwardMode::Vanishes,
            ..DirectionConditions::default()
        },
        ..NetworkConditions::default()
    };
    let open_episode = OpenEpisode::start(fault);
    apply_for(&met.links, weather, fault.length()).await;
    met.links.iter().for_each(|link| link.cut());
    vec![open_episode.end_excusing(
        format!("replies dropped at {}", met.names),
        LEASE_MS * MS + RECOVERY,
    )]
}

pub(super) async fn stall(test_cluster: &TestCluster, fault: &PlannedFault) -> Vec<Episode> {
    let met = choose_proxies(test_cluster, fault).await;
    let stalls = DirectionConditions {
        mode: ForwardMode::Stalls,
        ..DirectionConditions::default()
    };
    let passes = DirectionConditions::default();
    let (to_server, to_client) = match fault.variant_of(3) {
        0 => (stalls, stalls),
        1 => (stalls, passes),
        _ => (passes, stalls),
    };
    let open_episode = OpenEpisode::start(fault);
    let weather = NetworkConditions {
        to_server,
        to_client,
        resets_connections: false,
    };
    apply_for(&met.links, weather, fault.length()).await;
    vec![open_episode.end_excusing(
        format!("stalled network at {}", met.names),
        CALL_LIMIT + RECOVERY,
    )]
}

/// Excuses nothing: other connections work.
pub(super) async fn cut_clients(test_cluster: &TestCluster, fault: &PlannedFault) -> Vec<Episode> {
    let open_episode = OpenEpisode::start(fault);
    let mut turns = test_cluster.apis.iter().cycle();
    repeat_for(fault.length(), CLIENT_CUT_PAUSE, async || {
        if let Some(api) = turns.next() {
            api.client_proxy().cut();
        }
    })
    .await;
    vec![open_episode.end("connections of clients reset".to_owned())]
}
