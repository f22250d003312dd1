//! Faults of daemons.

use std::time::Duration;

use super::open_episode::{MS, OpenEpisode, TAKEOVER};
use crate::deployment::LEASE_MS;
use crate::fault::{Class, PlannedFault};
use crate::history::{Episode, Span, now};
use crate::test_cluster::{DaemonUnderTest, TestCluster};

/// Time limit of a stop: the daemon's drain timeout, and some more.
const STOP_LIMIT: Duration = Duration::from_secs(20);
/// How long an API that stops keeps idle connections, in microseconds (`docs/http-api.md`).
const API_LINGER: u64 = 300 * MS;
/// `waiters.poll_interval` by default, in microseconds.
pub(super) const POLL_INTERVAL: u64 = 5000 * MS;
const HOUR_S: i64 = 3600;

pub(super) fn choose_daemon<'a>(
    pods: &'a [DaemonUnderTest],
    fault: &PlannedFault,
) -> &'a DaemonUnderTest {
    &pods[fault.target % pods.len()]
}

/// Excuses late jobs until a poll: the doorbell of a job is lost if the process dies before it has followed it.
pub(super) async fn kill_api(test_cluster: &TestCluster, fault: &PlannedFault) -> Vec<Episode> {
    let api = choose_daemon(&test_cluster.apis, fault);
    let open_episode = OpenEpisode::start(fault);
    api.daemon.kill();
    let killed = now();
    tokio::time::sleep(fault.length()).await;
    api.daemon.restart().await;
    vec![Episode {
        excuses_until: killed + POLL_INTERVAL + MS * 1000,
        ..open_episode.end(format!("{} killed", api.name))
    }]
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
        let idle_closed = restart(pod).await;
        episodes.push(Episode {
            idle_closed: idle_closed.into_iter().collect(),
            ..open_episode.end(format!("{} restarted", pod.name))
        });
    }
    episodes
}

/// Stops a daemon (SIGTERM) and starts it again. Returns what [`stop`] returns.
pub(super) async fn restart(pod: &DaemonUnderTest) -> Option<Span> {
    let idle_closed = stop(pod).await;
    pod.daemon.restart().await;
    idle_closed
}

/// Stops a daemon (SIGTERM). Its exit status must be 0. For an API, returns the time in which it closed idle
/// connections.
pub(super) async fn stop(pod: &DaemonUnderTest) -> Option<Span> {
    let from = now() + API_LINGER;
    let status = pod.daemon.stop(STOP_LIMIT).await;
    assert_eq!(status.code(), Some(0), "{} did not stop cleanly", pod.name);
    pod.is_api().then(|| Span { from, to: now() })
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
