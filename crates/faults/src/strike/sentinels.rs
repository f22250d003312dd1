//! What sentinels do.

use std::sync::atomic::{AtomicUsize, Ordering};

use tidegate_testkit::SentinelGroup;
use tokio::sync::Mutex;

use super::{Begun, CALLS_FAIL, DEMOTED, RECOVERY, REPLICATION};
use crate::fault::Fault;
use crate::history::{Episode, Span};
use crate::plan::Deployment;

/// The master is replaced: because it was asked for, or it died, or it fell silent.
pub(super) async fn fail_over(
    group: &Mutex<SentinelGroup>,
    count: &AtomicUsize,
    fault: &Fault,
) -> Vec<Episode> {
    let mut group = group.lock().await;
    let master = group.master_by(0).await;
    let begun = Begun::now(fault);
    let from = begun.from;
    let what = match fault.choose(3) {
        0 => {
            group.ask_for_failover().await;
            "failover asked for"
        }
        1 => {
            tokio::task::block_in_place(|| group.servers[master].kill());
            "master killed"
        }
        _ => {
            group.servers[master]
                .pause()
                .unwrap_or_else(|error| panic!("{error}"));
            "master stood still"
        }
    };
    group.until_replaced(master).await;
    bring_back(&mut group, master, fault);
    // The old master goes on to acknowledge until the sentinels have told it.
    group.until_in_sync(Deployment::Sentinels.replicas()).await;
    tokio::time::sleep(DEMOTED).await;
    let mut episode = begun.end_excusing(what.to_owned(), RECOVERY + CALLS_FAIL);
    episode.may_lose = Some(Span {
        from: from - REPLICATION,
        to: episode.span.to,
    });
    count.fetch_add(1, Ordering::Relaxed);
    vec![episode]
}

fn bring_back(group: &mut SentinelGroup, master: usize, fault: &Fault) {
    match fault.choose(3) {
        0 => {}
        1 => tokio::task::block_in_place(|| group.servers[master].start_again())
            .unwrap_or_else(|error| panic!("{error}")),
        _ => group.servers[master]
            .resume()
            .unwrap_or_else(|error| panic!("{error}")),
    }
}
