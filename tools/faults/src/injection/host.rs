//! Limits of a daemon's host: few open files, a log output that nothing reads.

use std::time::Duration;

use tokio::net::TcpStream;
use tokio::time::timeout;

use super::daemons::{choose_daemon, restart, stop};
use super::open_episode::OpenEpisode;
use crate::fault::PlannedFault;
use crate::history::Episode;
use crate::test_cluster::TestCluster;

/// Limit of open files: enough for a daemon with two pools and some clients.
const FILES_MAX: u64 = 1000;
/// Number of clients: more than the limit of open files.
const CROWD: usize = 1100;
/// Time limit of a connect; a full port does not accept.
const CONNECT_LIMIT: Duration = Duration::from_millis(100);
const ADMIN_LIMIT: Duration = Duration::from_secs(5);

/// The API reserves files for everything else, so no request may fail. A client beyond the limit is answered 503, or
/// waits in the accept queue, which excuses lateness.
pub(super) async fn limit_open_files(
    test_cluster: &TestCluster,
    fault: &PlannedFault,
) -> Vec<Episode> {
    let api = choose_daemon(&test_cluster.apis, fault);
    let open_episode = OpenEpisode::start(fault);
    api.daemon.set_files_max(Some(FILES_MAX));
    let limited = restart(api).await;
    let mut crowd = Vec::new();
    for _ in 0..CROWD {
        match timeout(CONNECT_LIMIT, TcpStream::connect(api.daemon.listen())).await {
            Ok(Ok(client)) => crowd.push(client),
            _ => break,
        }
    }
    tokio::time::sleep(fault.length()).await;
    let metrics = timeout(ADMIN_LIMIT, api.daemon.metrics()).await;
    assert!(metrics.is_ok(), "the admin port of {} is silent", api.name);
    let what = format!(
        "{} had few open files and {} clients",
        api.name,
        crowd.len()
    );
    drop(crowd);
    api.daemon.set_files_max(None);
    let unlimited = restart(api).await;
    vec![Episode {
        idle_closed: limited.into_iter().chain(unlimited).collect(),
        ..open_episode.end_excusing(what, 0)
    }]
}

/// Excuses nothing: only log lines may be lost.
pub(super) async fn block_log_output(
    test_cluster: &TestCluster,
    fault: &PlannedFault,
) -> Vec<Episode> {
    let pods: Vec<_> = test_cluster.daemons().collect();
    let pod = pods[fault.target % pods.len()];
    let open_episode = OpenEpisode::start(fault);
    let blocked = stop(pod).await;
    pod.daemon.restart_with_full_pipe().await;
    tokio::time::sleep(fault.length()).await;
    let unblocked = restart(pod).await;
    vec![Episode {
        idle_closed: blocked.into_iter().chain(unblocked).collect(),
        ..open_episode.end(format!("log of {} not read", pod.name))
    }]
}
