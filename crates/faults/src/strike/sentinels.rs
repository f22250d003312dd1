//! What sentinels do.

use std::time::Duration;

use tidegate_testkit::SentinelGroup;

use super::{Begun, MS, RECOVERY};
use crate::fault::Fault;
use crate::history::{Episode, Span};
use crate::site::{REPLICAS, Servers, Site};

/// What a master acknowledges and its replicas have not heard of yet: usually some ms, on a busy machine more.
const REPLICATION: u64 = 1000 * MS;
/// How long calls to a master that has fallen silent may go on to fail.
const CALLS_FAIL: u64 = 3000 * MS;
const DEMOTED: Duration = Duration::from_secs(2);

/// The master is replaced: because it was asked for, or it died, or it fell silent.
pub(super) async fn fail_over(site: &Site, fault: &Fault) -> Vec<Episode> {
    let Servers::Watched(group) = site.keeper.servers() else {
        panic!("this fault is for sentinels");
    };
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
    group.until_in_sync(REPLICAS).await;
    tokio::time::sleep(DEMOTED).await;
    let mut episode = begun.end_excusing(what.to_owned(), RECOVERY + CALLS_FAIL);
    episode.may_lose = Some(Span {
        from: from - REPLICATION,
        to: episode.span.to,
    });
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
