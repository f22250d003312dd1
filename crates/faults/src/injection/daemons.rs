//! Faults of daemons.

use std::time::Duration;

use super::open_episode::{MS, OpenEpisode, TAKEOVER};
use crate::fault::{Class, PlannedFault};
use crate::history::{Episode, now};
use crate::plan::LEASE_MS;
use crate::test_cluster::{DaemonUnderTest, TestCluster};

/// Time limit of a stop: the daemon's drain timeout, and some more.
const STOP_LIMIT: Duration = Duration::from_secs(20);
const HOUR_S: i64 = 3600;

pub(super) fn choose_daemon<'a>(
    pods: &'a [DaemonUnderTest],
    fault: &PlannedFault,
) -> &'a DaemonUnderTest {
    &pods[fault.target % pods.len()]
}

/// Excuses no late jobs: the other APIs continue.
pub(super) async fn kill_api(test_cluster: &TestCluster, fault: &PlannedFault) -> Vec<Episode> {
    let api = choose_daemon(&test_cluster.apis, fault);
    let open_episode = OpenEpisode::start(fault);
    api.daemon.kill();
    tokio::time::sleep(fault.length()).await;
    api.daemon.restart().await;
    vec![open_episode.end(format!("{} killed", api.name))]
}

/// Jobs that it had reserved are not delivered before it resumes, which excuses late jobs until then.
pub(super) async fn pause_api(test_cluster: &TestCluster, fault: &PlannedFault) -> Vec<Episode> {
    let api = choose_daemon(&test_cluster.apis, fault);
    let open_episode = OpenEpisode::start(fault);
    api.daemon.pause();
    tokio::time::sleep(fault.length()).await;
    api.daemon.resume();
    vec![open_episode.end_excusing(format!("{} paused", api.name), 0)]
}

pub(super) async fn kill_pump(test_cluster: &TestCluster, fault: &PlannedFault) -> Vec<Episode> {
    let pump = choose_daemon(&test_cluster.pumps, fault);
    let open_episode = OpenEpisode::start(fault);
    pump.daemon.kill();
    let killed = now();
    tokio::time::sleep(fault.length()).await;
    pump.daemon.restart().await;
    vec![Episode {
        excuses_until: killed + LEASE_MS * MS + TAKEOVER,
        ..open_episode.end(format!("{} killed", pump.name))
    }]
}

pub(super) async fn pause_pump(test_cluster: &TestCluster, fault: &PlannedFault) -> Vec<Episode> {
    let pump = choose_daemon(&test_cluster.pumps, fault);
    let open_episode = OpenEpisode::start(fault);
    pump.daemon.pause();
    let paused = now();
    tokio::time::sleep(fault.length()).await;
    pump.daemon.resume();
    vec![Episode {
        excuses_until: paused + LEASE_MS * MS + TAKEOVER,
        ..open_episode.end(format!("{} paused", pump.name))
    }]
}

/// Excuses no late jobs: each daemon hands over before it ends.
pub(super) async fn upgrade(test_cluster: &TestCluster) -> Vec<Episode> {
    let mut episodes = Vec::new();
    for pod in test_cluster.daemons() {
        let open_episode = OpenEpisode {
            class: Class::Upgrade,
            from: now(),
        };
        restart(pod).await;
        episodes.push(open_episode.end(format!("{} restarted", pod.name)));
    }
    episodes
}

/// Stops a daemon (SIGTERM) and starts it again.
pub(super) async fn restart(pod: &DaemonUnderTest) {
    stop(pod).await;
    pod.daemon.restart().await;
}

/// Stops a daemon (SIGTERM). Its exit status must be 0.
pub(super) async fn stop(pod: &DaemonUnderTest) {
    let status = pod.daemon.stop(STOP_LIMIT).await;
    assert_eq!(status.code(), Some(0), "{} did not stop cleanly", pod.name);
}

/// Excuses nothing: wall clocks do not affect jobs.
pub(super) async fn set_clocks(test_cluster: &TestCluster, fault: &PlannedFault) -> Vec<Episode> {
    let open_episode = OpenEpisode::start(fault);
    for (number, pod) in test_cluster.daemons().enumerate() {
        let draw = fault.variant.rotate_left(number as u32 * 5);
        let sign = if draw.is_multiple_of(2) { 1 } else { -1 };
        pod.clock
            .set(sign * (i64::from(draw % 60) * 60 + 1).min(HOUR_S));
    }
    tokio::time::sleep(fault.length()).await;
    let episode = open_episode.end("all clocks jumped by up to an hour".to_owned());
    for pod in test_cluster.daemons().step_by(2) {
        pod.clock.set(0);
    }
    vec![episode]
}
