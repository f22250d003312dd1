//! Faults of a Redis Cluster.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use tidegate_core::placement;
use tidegate_testkit::ClusterGroup;
use tokio::sync::Mutex;
use tokio::time::Instant;

use super::open_episode::{CALLS_FAIL, DEMOTED, OpenEpisode, RECOVERY, REPLICATION};
use crate::fault::PlannedFault;
use crate::history::{Episode, Span, now};
use crate::test_cluster::{BUCKETS, RedisServers, TestCluster};

/// Number of keys that move at a time.
const PIECE_KEYS: usize = 10;
/// Longest pause between two batches of keys of a slot that moves slowly.
const PIECE_PAUSE_MAX_MS: u32 = 400;

/// Replaces a primary by its replica: by request, or by killing or pausing the primary.
pub(super) async fn fail_over(
    group: &Mutex<ClusterGroup>,
    count: &AtomicUsize,
    fault: &PlannedFault,
) -> Vec<Episode> {
    let mut group = group.lock().await;
    let primaries = group.primaries().await;
    let primary = primaries[fault.target % primaries.len()];
    let replica = group.replica_of(primary).await;
    let open_episode = OpenEpisode::start(fault);
    let episode = match fault.variant_of(3) {
        0 => request_failover(&group, replica, open_episode).await,
        1 => kill_primary(&mut group, primary, replica, open_episode).await,
        _ => pause_primary(&mut group, primary, replica, open_episode).await,
    };
    count.fetch_add(1, Ordering::Relaxed);
    vec![episode]
}

/// The primary pauses clients until the replica is in sync: nothing may be lost.
async fn request_failover(
    group: &ClusterGroup,
    replica: usize,
    open_episode: OpenEpisode,
) -> Episode {
    group.request_failover(replica).await;
    group.wait_until_in_sync().await;
    open_episode.end_excusing("failover requested".to_owned(), RECOVERY)
}

/// Writes that the primary acknowledged and its replica had not received are lost.
async fn kill_primary(
    group: &mut ClusterGroup,
    primary: usize,
    replica: usize,
    open_episode: OpenEpisode,
) -> Episode {
    tokio::task::block_in_place(|| group.servers[primary].kill());
    let killed = now();
    group.wait_until_primary(replica).await;
    tokio::task::block_in_place(|| group.servers[primary].restart())
        .unwrap_or_else(|error| panic!("{error}"));
    group.wait_until_replica(primary).await;
    group.wait_until_in_sync().await;
    let from = open_episode.from - REPLICATION;
    let mut episode = open_episode.end_excusing("primary killed".to_owned(), RECOVERY + CALLS_FAIL);
    episode.may_lose = Some(Span { from, to: killed });
    episode
}

/// After it resumes, the old primary still acknowledges received writes until it is demoted; these are lost.
async fn pause_primary(
    group: &mut ClusterGroup,
    primary: usize,
    replica: usize,
    open_episode: OpenEpisode,
) -> Episode {
    group.pause(primary);
    group.wait_until_primary(replica).await;
    group.resume(primary);
    group.wait_until_replica(primary).await;
    group.wait_until_in_sync().await;
    tokio::time::sleep(DEMOTED).await;
    let from = open_episode.from - REPLICATION;
    let mut episode = open_episode.end_excusing("primary paused".to_owned(), RECOVERY + CALLS_FAIL);
    let to = episode.span.to;
    episode.may_lose = Some(Span { from, to });
    episode
}

/// Moves the slots of the run's queues, and one with a roster, to other primaries, one after the other, and again.
/// Calls wait while their keys move, which excuses late jobs.
pub(super) async fn reshard(test_cluster: &TestCluster, fault: &PlannedFault) -> Vec<Episode> {
    let RedisServers::Cluster { group, .. } = test_cluster.redis.servers() else {
        panic!("this fault is for a cluster");
    };
    let group = group.lock().await;
    let mut slots = used_slots(test_cluster, &group).await;
    let first = fault.target % slots.len();
    slots.rotate_left(first);
    let pause_ms = match fault.variant_of(2) {
        0 => 0,
        _ => (fault.variant >> 8) % PIECE_PAUSE_MAX_MS,
    };
    let pause = Duration::from_millis(pause_ms.into());
    let open_episode = OpenEpisode::start(fault);
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
    // Moved keys are not covered by the durability of their publishes: without this wait the next failover could
    // lose them.
    group.wait_until_replicated().await;
    let how = if pause_ms == 0 { "" } else { " slowly" };
    // Calls wait while their keys move, some of them several times.
    vec![open_episode.end_excusing(format!("{moves} slots moved{how}"), RECOVERY)]
}

/// Returns the slots of the run's queues, and one with the roster of a primary.
async fn used_slots(test_cluster: &TestCluster, group: &ClusterGroup) -> Vec<u16> {
    let all = (0..=u16::MAX).take(BUCKETS as usize);
    let roster = placement::roster_bucket(all);
    let mut slots = Vec::new();
    for bucket in roster.into_iter().chain(test_cluster.buckets()) {
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
