//! What happens to a Redis Cluster.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use tidegate_core::placement;
use tidegate_testkit::ClusterGroup;
use tokio::sync::Mutex;
use tokio::time::Instant;

use super::{Begun, CALLS_FAIL, DEMOTED, RECOVERY, REPLICATION};
use crate::fault::Fault;
use crate::history::{Episode, Span, now};
use crate::site::{BUCKETS, Servers, Site};

/// How many keys move at once.
const PIECE_KEYS: usize = 10;
/// How long a slot that moves slowly may stand still between two pieces.
const PIECE_PAUSE_MAX_MS: u32 = 400;

/// A primary is replaced by its replica: because that was asked to, or the primary died, or it fell silent.
pub(super) async fn fail_over(
    group: &Mutex<ClusterGroup>,
    count: &AtomicUsize,
    fault: &Fault,
) -> Vec<Episode> {
    let mut group = group.lock().await;
    let primaries = group.primaries().await;
    let primary = primaries[fault.target % primaries.len()];
    let replica = group.replica_of(primary).await;
    let begun = Begun::now(fault);
    let episode = match fault.choose(3) {
        0 => ask(&group, replica, begun).await,
        1 => kill(&mut group, primary, replica, begun).await,
        _ => pause(&mut group, primary, replica, begun).await,
    };
    count.fetch_add(1, Ordering::Relaxed);
    vec![episode]
}

/// Clients are held back until the replica has heard all: nothing may be lost.
async fn ask(group: &ClusterGroup, replica: usize, begun: Begun) -> Episode {
    group.ask_for_failover(replica).await;
    group.until_in_sync().await;
    begun.end_excusing("failover asked for".to_owned(), RECOVERY)
}

/// What the primary acknowledged, and its replica had not heard of, is lost with it.
async fn kill(group: &mut ClusterGroup, primary: usize, replica: usize, begun: Begun) -> Episode {
    tokio::task::block_in_place(|| group.servers[primary].kill());
    let killed = now();
    group.until_primary(replica).await;
    tokio::task::block_in_place(|| group.servers[primary].start_again())
        .unwrap_or_else(|error| panic!("{error}"));
    group.until_replica(primary).await;
    group.until_in_sync().await;
    let from = begun.from - REPLICATION;
    let mut episode = begun.end_excusing("primary killed".to_owned(), RECOVERY + CALLS_FAIL);
    episode.may_lose = Some(Span { from, to: killed });
    episode
}

/// Once it goes on, the old primary acknowledges what it had been sent, until it hears that it is none any more.
async fn pause(group: &mut ClusterGroup, primary: usize, replica: usize, begun: Begun) -> Episode {
    group.pause(primary);
    group.until_primary(replica).await;
    group.resume(primary);
    group.until_replica(primary).await;
    group.until_in_sync().await;
    tokio::time::sleep(DEMOTED).await;
    let from = begun.from - REPLICATION;
    let mut episode = begun.end_excusing("primary stood still".to_owned(), RECOVERY + CALLS_FAIL);
    let to = episode.span.to;
    episode.may_lose = Some(Span { from, to });
    episode
}

/// The slots that hold what is alive go to another primary, one after the other, and on again. Calls wait for a slot that
/// is on its way; only where it is slow on purpose does that excuse that jobs are late.
pub(super) async fn reshard(site: &Site, fault: &Fault) -> Vec<Episode> {
    let Servers::Cluster { group, .. } = site.keeper.servers() else {
        panic!("this fault is for a cluster");
    };
    let group = group.lock().await;
    let mut slots = living_slots(site, &group).await;
    let first = fault.target % slots.len();
    slots.rotate_left(first);
    let pause_ms = match fault.choose(2) {
        0 => 0,
        _ => (fault.variant >> 8) % PIECE_PAUSE_MAX_MS,
    };
    let pause = Duration::from_millis(pause_ms.into());
    let begun = Begun::now(fault);
    let end = Instant::now() + fault.length();
    let mut moves = 0;
    for slot in slots.into_iter().cycle() {
        if Instant::now() >= end {
            break;
        }
        let owner = group.owner_of(slot).await;
        let mut others = group.primaries().await;
        others.retain(|primary| *primary != owner);
        let to = others[(fault.target + moves) % others.len()];
        move_slot(&group, slot, to, pause).await;
        moves += 1;
    }
    // What moves is not waited for, whatever its publish was: with the next failover it could be lost.
    group.until_replicated().await;
    let how = if pause_ms == 0 { "" } else { " slowly" };
    // Calls wait while the keys that they are about are on their way, some of them several times.
    vec![begun.end_excusing(format!("{moves} slots moved{how}"), RECOVERY)]
}

/// Those of the run's queues, and one with the roster of a primary, wherever it is.
async fn living_slots(site: &Site, group: &ClusterGroup) -> Vec<u16> {
    let all = (0..=u16::MAX).take(BUCKETS as usize);
    let roster = placement::roster_bucket(all);
    let mut slots = Vec::new();
    for bucket in roster.into_iter().chain(site.buckets()) {
        slots.push(group.slot_of_bucket(bucket, BUCKETS).await);
    }
    slots
}

async fn move_slot(group: &ClusterGroup, slot: u16, to: usize, pause: Duration) {
    let on_its_way = group.begin_move(slot, to).await;
    while on_its_way.move_keys(PIECE_KEYS).await > 0 {
        tokio::time::sleep(pause).await;
    }
    on_its_way.end().await;
}
