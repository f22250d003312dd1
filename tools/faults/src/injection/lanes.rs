//! Changes of the number of lanes.

use std::time::Duration;

use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use tidegate_testkit::fault_proxy::{DirectionConditions, ForwardMode, NetworkConditions};

use super::open_episode::{MS, OpenEpisode, RECOVERY, TAKEOVER, repeat_for};
use crate::deployment::LEASE_MS;
use crate::fault::PlannedFault;
use crate::history::{Episode, now};
use crate::test_cluster::{DaemonUnderTest, TestCluster};
use crate::traffic::LANED;

const PAUSE: Duration = Duration::from_millis(100);
/// Pause between changes: long enough for jobs to be published to a lane before it is closed.
const RACE_PAUSE: Duration = Duration::from_millis(200);
/// Largest number of lanes. With this many, every node of a cluster has one.
const LANES_MAX: u16 = 8;
/// Timeout of a call, in µs. An API without answers for so long has outdated numbers of lanes.
const CALL_LIMIT: u64 = 3000 * MS;

/// Excuses no late jobs: an API that does not know a new lane yet reads it within a second. The queues keep their last
/// number of lanes.
pub(super) async fn change(test_cluster: &TestCluster, fault: &PlannedFault) -> Vec<Episode> {
    let open_episode = OpenEpisode::start(fault);
    let apis: Vec<&DaemonUnderTest> = test_cluster.apis.iter().collect();
    let what = change_by(test_cluster, &apis, fault, PAUSE, 1..=LANES_MAX).await;
    vec![open_episode.end(what)]
}

/// Closes and opens lanes while a daemon that knows them is paused, or while the calls of an API to Redis are stalled.
/// Its old calls then arrive after their lanes were closed.
pub(super) async fn race(test_cluster: &TestCluster, fault: &PlannedFault) -> Vec<Episode> {
    let (still, others) = {
        let index = fault.target % test_cluster.apis.len();
        let mut apis: Vec<&DaemonUnderTest> = test_cluster.apis.iter().collect();
        (apis.remove(index), apis)
    };
    let changing =
        async || change_by(test_cluster, &others, fault, RACE_PAUSE, [1, LANES_MAX]).await;
    let open_episode = OpenEpisode::start(fault);
    match fault.variant_of(4) {
        0 => {
            let pump = &test_cluster.pumps[fault.target % test_cluster.pumps.len()];
            pump.daemon.pause();
            let paused = now();
            let what = changing().await;
            pump.daemon.resume();
            vec![Episode {
                excuses_until: paused + LEASE_MS * MS + TAKEOVER,
                ..open_episode.end(format!("{what}, {} paused", pump.name))
            }]
        }
        1 | 2 if !still.redis_proxies.is_empty() => {
            let stalled = NetworkConditions {
                to_server: DirectionConditions {
                    mode: ForwardMode::Stalls,
                    ..DirectionConditions::default()
                },
                ..NetworkConditions::default()
            };
            still
                .redis_proxies
                .iter()
                .for_each(|link| link.set(stalled));
            let what = changing().await;
            let passing = NetworkConditions::default();
            still
                .redis_proxies
                .iter()
                .for_each(|link| link.set(passing));
            let what = format!("{what}, calls of {} to Redis stalled", still.name);
            vec![open_episode.end_excusing(what, CALL_LIMIT + RECOVERY)]
        }
        _ => {
            still.daemon.pause();
            let what = changing().await;
            still.daemon.resume();
            vec![open_episode.end_excusing(format!("{what}, {} paused", still.name), 0)]
        }
    }
}

/// Repeatedly sets the number of lanes of queues to one of these numbers. Returns a description of the result.
async fn change_by(
    test_cluster: &TestCluster,
    apis: &[&DaemonUnderTest],
    fault: &PlannedFault,
    pause: Duration,
    numbers: impl IntoIterator<Item = u16>,
) -> String {
    let numbers: Vec<u16> = numbers.into_iter().collect();
    let mut random = StdRng::seed_from_u64(fault.variant.into());
    let (mut changes, mut failed) = (0, 0);
    repeat_for(fault.length(), pause, async || {
        let queue = test_cluster.queue(LANED[random.random_range(0..LANED.len())]);
        let api = &apis[random.random_range(0..apis.len())].daemon;
        let open = numbers[random.random_range(0..numbers.len())];
        match queue.try_set_lanes(api, open).await {
            Ok(answer) if answer.status == 200 => changes += 1,
            // An earlier fault may still have an effect.
            Ok(_) | Err(_) => failed += 1,
        }
    })
    .await;
    format!("{changes} changes of lanes, {failed} failed")
}
