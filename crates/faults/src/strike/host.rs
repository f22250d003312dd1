//! Limits of the machine of a daemon: few open files, a log whose reader has stopped.

use std::time::Duration;

use tokio::net::TcpStream;
use tokio::time::timeout;

use super::Begun;
use super::pods::{one_of, restart, stop};
use crate::fault::Fault;
use crate::history::Episode;
use crate::site::Site;

/// Enough for a daemon with two pools and some clients.
const FILES_MAX: u64 = 1000;
/// More than there are files.
const CROWD: usize = 1100;
/// A port that is full does not accept.
const CONNECT_LIMIT: Duration = Duration::from_millis(100);
const ADMIN_LIMIT: Duration = Duration::from_secs(5);

/// The API has files for everything else, so nothing may fail. A client that finds no place is answered 503, or waits in the
/// system's queue for one to leave: that excuses lateness.
pub(super) async fn have_few_files(site: &Site, fault: &Fault) -> Vec<Episode> {
    let api = one_of(&site.apis, fault);
    let begun = Begun::now(fault);
    api.daemon.set_files_max(Some(FILES_MAX));
    restart(api).await;
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
    let what = format!("{} had few files and {} clients", api.name, crowd.len());
    drop(crowd);
    api.daemon.set_files_max(None);
    restart(api).await;
    vec![begun.end_excusing(what, 0)]
}

/// Excuses nothing: lines of the log are lost, and that is all.
pub(super) async fn leave_log_unread(site: &Site, fault: &Fault) -> Vec<Episode> {
    let pods: Vec<_> = site.pods().collect();
    let pod = pods[fault.target % pods.len()];
    let begun = Begun::now(fault);
    stop(pod).await;
    pod.daemon.restart_unread().await;
    tokio::time::sleep(fault.length()).await;
    restart(pod).await;
    vec![begun.end(format!("log of {} not read", pod.name))]
}
