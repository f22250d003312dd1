//! Failovers with sentinels.

use std::sync::atomic::{AtomicUsize, Ordering};

use tidegate_testkit::SentinelGroup;
use tokio::sync::Mutex;

use super::open_episode::{CALLS_FAIL, DEMOTED, OpenEpisode, RECOVERY, REPLICATION};
use crate::deployment::Deployment;
use crate::fault::PlannedFault;
use crate::history::{Episode, Span};

/// Replaces the master: by request, or by killing or pausing it.
pub(super) async fn fail_over(
    group: &Mutex<SentinelGroup>,
    count: &AtomicUsize,
    fault: &PlannedFault,
) -> Vec<Episode> {
    let mut group = group.lock().await;
    let master = group.master_seen_by(0).await;
    let open_episode = OpenEpisode::start(fault);
    let from = open_episode.from;
    let what = match fault.variant_of(3) {
        0 => {
            group.request_failover().await;
            "failover requested"
        }
        1 => {
            tokio::task::block_in_place(|| group.servers[master].kill());
            "master killed"
        }
        _ => {
            group.servers[master]
                .pause()
                .unwrap_or_else(|error| panic!("{error}"));
            "master paused"
        }
    };
    group.wait_until_replaced(master).await;
    restore_master(&mut group, master, fault);
    // The old master still acknowledges writes until the sentinels demote it.
    group
        .wait_until_in_sync(Deployment::Sentinels.replicas())
        .await;
    tokio::time::sleep(DEMOTED).await;
    let mut episode = open_episode.end_excusing(what.to_owned(), RECOVERY + CALLS_FAIL);
    episode.may_lose = Some(Span {
        from: from - REPLICATION,
        to: episode.span.to,
    });
    count.fetch_add(1, Ordering::Relaxed);
    vec![episode]
}

fn restore_master(group: &mut SentinelGroup, master: usize, fault: &PlannedFault) {
    match fault.variant_of(3) {
        0 => {}
        1 => tokio::task::block_in_place(|| group.servers[master].restart())
            .unwrap_or_else(|error| panic!("{error}")),
        _ => group.servers[master]
            .resume()
            .unwrap_or_else(|error| panic!("{error}")),
    }
}
