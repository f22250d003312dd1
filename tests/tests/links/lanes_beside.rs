//! Queues with lanes on a primary that is dead, silent, or refuses writes: its other lanes stay usable.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::time::{Duration, Instant};

use futures_util::future::join_all;
use tidegate_core::JobId;
use tidegate_testkit::{
    ClusterGroup, QueueClient, RedisOptions, connect_to_redis, eventually, print_figure,
};
use tokio::time::sleep;

use crate::cluster_consumers::{NO_FAILOVER_MS, primary_without};
use crate::fleet::Fleet;
use crate::turn;

const LANES: u16 = 8;
const BUCKETS: u32 = 256;
const PATIENCE: Duration = Duration::from_secs(60);
/// More replicas than there are.
const REPLICAS_MISSING: &str = "9";

/// A cluster without failovers, daemons, and a primary that has no table of lanes, limits or tokens.
async fn start(pumps: usize) -> (ClusterGroup, Fleet, usize) {
    start_with(pumps, "").await
}

/// The same; `pool` has more lines of the table `[pool.default]`.
async fn start_with(pumps: usize, pool: &str) -> (ClusterGroup, Fleet, usize) {
    let group = ClusterGroup::start_with(RedisOptions::new(), NO_FAILOVER_MS).await;
    let fleet = Fleet::start(1, pumps, &(group.settings() + pool)).await;
    let queue = wide(&fleet, "any").await;
    queue.publish("x").id().await;
    let keys = ["tg:lanes", "tg:limits", "tg:tokens:default/shop"];
    let primary = primary_without(&group, &keys).await;
    (group, fleet, primary)
}

async fn wide(fleet: &Fleet, name: &str) -> QueueClient {
    let queue = fleet.queue(name).await;
    queue.set_lanes(&fleet.apis[0], LANES).await;
    queue
}

/// The ids of jobs on a primary, and of the others.
async fn split(
    group: &ClusterGroup,
    primary: usize,
    ids: Vec<String>,
) -> (Vec<String>, Vec<String>) {
    let mut owners = HashMap::new();
    for id in &ids {
        let bucket = id.parse::<JobId>().unwrap().bucket();
        if let Entry::Vacant(owner) = owners.entry(bucket) {
            let slot = group.slot_of_bucket(bucket, BUCKETS).await;
            owner.insert(group.owner_of(slot).await);
        }
    }
    let is_there = |id: &String| owners[&id.parse::<JobId>().unwrap().bucket()] == primary;
    ids.into_iter().partition(is_there)
}

/// Publishes jobs, lets them die, and returns their ids when all are dead.
async fn dead_jobs(queue: &QueueClient, count: u64) -> Vec<String> {
    let mut ids = Vec::new();
    for _ in 0..count {
        ids.push(queue.publish("dies").tries(1).id().await);
    }
    for _ in 0..count {
        queue.consume().ttr_s(1).timeout_s(5).job().await.unwrap();
    }
    eventually("all jobs are dead", PATIENCE, async || {
        match queue.dead_size().await {
            dead if dead == count => Ok(()),
            dead => Err(dead),
        }
    })
    .await;
    ids
}

async fn set(group: &ClusterGroup, server: usize, setting: &str, value: &str) {
    let client = redis::Client::open(group.url(server)).unwrap();
    let mut connection = connect_to_redis(&client).await.unwrap();
    let mut set = redis::cmd("CONFIG");
    set.arg("SET").arg(setting).arg(value);
    set.query_async::<String>(&mut connection).await.unwrap();
}

async fn status(queue: &QueueClient, method: &str, what: &str) -> u16 {
    let path = format!("{}{what}", queue.path());
    queue.raw(method, &path).await.status
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_other_lanes_are_respawned_and_purged_beside_a_dead_primary() {
    const JOBS: u64 = 48;
    const DELETED: u64 = 5;
    let _turn = turn().await;
    let (mut group, fleet, dead) = start(1).await;
    let queue = wide(&fleet, "wide").await;
    let ids = dead_jobs(&queue, JOBS).await;
    let (lost, _) = split(&group, dead, ids).await;
    let lost = lost.len() as u64;
    assert!((1..JOBS - DELETED).contains(&lost), "{lost}");
    tokio::task::block_in_place(|| group.servers[dead].kill());

    // A verb does all that was requested, or it fails.
    queue.purge_dead(DELETED).await;
    assert_eq!(queue.respawn(1000, 60).await, JOBS - DELETED - lost);
    assert_eq!(status(&queue, "PUT", "/deadletter?limit=1000").await, 500);
    assert_eq!(
        status(&queue, "DELETE", "/deadletter?limit=1000").await,
        500
    );
    // A job that can be read is shown; a number that is incomplete is not.
    queue.peek().await.expect(200);
    assert_eq!(status(&queue, "GET", "/size").await, 500);
    assert_eq!(status(&queue, "GET", "/deadletter").await, 500);
    // The ready jobs of the reachable lanes are deleted, and the answer is an error.
    assert_eq!(status(&queue, "DELETE", "").await, 500);
    let empty = queue.consume().timeout_s(1).send().await.unwrap();
    empty.expect(404);
    assert_eq!(status(&queue, "GET", "/peek").await, 500);

    tokio::task::block_in_place(|| group.servers[dead].restart()).unwrap();
    eventually(
        "the primary answers again",
        PATIENCE,
        async || match status(&queue, "GET", "/deadletter").await {
            200 => Ok(()),
            status => Err(status),
        },
    )
    .await;
    assert_eq!(queue.respawn(1000, 60).await, lost);
    assert_eq!(queue.size().await, lost);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_other_lanes_are_peeked_and_respawned_beside_a_silent_primary() {
    const JOBS: u64 = 24;
    /// Less than a call waits for an answer.
    const PEEK_MAX: Duration = Duration::from_secs(8);
    let _turn = turn().await;
    let (mut group, fleet, silent) = start_with(1, "command_timeout = \"10s\"\n").await;
    let queue = wide(&fleet, "wide").await;
    let (lost, _) = split(&group, silent, dead_jobs(&queue, JOBS).await).await;
    group.pause(silent);
    assert_eq!(queue.respawn(1000, 60).await, JOBS - lost.len() as u64);
    let began_at = Instant::now();
    queue.peek().await.expect(200);
    let took = began_at.elapsed();
    print_figure(&format!("a peek beside a silent primary: {took:?}"));
    assert!(took < PEEK_MAX, "{took:?}");
    group.resume(silent);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn replacements_in_silent_lanes_do_not_delay_those_in_other_lanes() {
    /// More than a queue may have in flight at a server.
    const STUCK: usize = 24;
    const SILENCE: Duration = Duration::from_secs(60);
    let _turn = turn().await;
    // So that requests which wait for the silent primary take longer than a slow machine does for the others.
    let (mut group, fleet, silent) = start_with(
        0,
        &format!("command_timeout = \"{}s\"\n", SILENCE.as_secs()),
    )
    .await;
    let queue = wide(&fleet, "wide").await;
    let mut ids = Vec::new();
    for _ in 0..12 * usize::from(LANES) {
        ids.push(queue.publish("x").delay_s(3000).ttl_s(9000).id().await);
    }
    let (there, elsewhere) = split(&group, silent, ids).await;
    assert!(there.len() >= STUCK, "{}", there.len());
    group.pause(silent);
    let stuck: Vec<_> = there[..STUCK]
        .iter()
        .map(|id| {
            tokio::spawn(
                queue
                    .with_separate_connections()
                    .republish(id, "y")
                    .delay_s(3000)
                    .ttl_s(9000)
                    .send(),
            )
        })
        .collect();
    sleep(Duration::from_millis(300)).await;
    let began_at = Instant::now();
    for id in &elsewhere[..8] {
        queue
            .republish(id, "z")
            .delay_s(3000)
            .ttl_s(9000)
            .id()
            .await;
    }
    for _ in 0..8 {
        queue.publish(vec![b'q'; 20_000]).id().await;
    }
    let took = began_at.elapsed();
    print_figure(&format!(
        "beside {STUCK} replacements in silent lanes: {took:?}"
    ));
    assert!(stuck.iter().all(|request| !request.is_finished()));
    assert!(took < SILENCE / 3, "{took:?}");
    stuck.iter().for_each(|request| request.abort());
    group.resume(silent);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_publish_fails_beside_a_primary_that_refuses_writes() {
    /// Time for several probes whether the server stores jobs again.
    const REFUSING: Duration = Duration::from_millis(2200);
    const AGAIN: &str = "the server of a lane accepts publishes again";
    let _turn = turn().await;
    let (group, fleet, refusing) = start(0).await;
    let queue = wide(&fleet, "wide").await;
    let settings = [
        ("min-replicas-to-write", REPLICAS_MISSING),
        ("maxmemory", "1"),
    ];
    for (recovered, (setting, value)) in settings.into_iter().enumerate() {
        set(&group, refusing, setting, value).await;
        let began_at = Instant::now();
        while began_at.elapsed() < REFUSING {
            queue.publish("x").id().await;
            queue.publish(vec![b'q'; 20_000]).id().await;
        }
        let logged = fleet.apis[0].log().matches(AGAIN).count();
        assert_eq!(logged, recovered, "{setting}");
        set(&group, refusing, setting, "0").await;
        eventually(
            "the primary is used again",
            PATIENCE,
            async || match fleet.apis[0].log().matches(AGAIN).count() {
                logged if logged > recovered => Ok(()),
                logged => Err(logged),
            },
        )
        .await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn few_publishes_are_sent_to_a_silent_primary() {
    const QUEUES: usize = 4;
    const CLIENTS: usize = 16;
    /// A third of them are on the silent primary.
    const MANY_LANES: u16 = 32;
    /// Longer than a call waits for its answer.
    const LOAD: Duration = Duration::from_millis(3500);
    let _turn = turn().await;
    let (mut group, fleet, silent) = start(0).await;
    let mut queues = Vec::new();
    for number in 0..QUEUES {
        let queue = fleet.queue(&format!("wide-{number}")).await;
        queue.set_lanes(&fleet.apis[0], MANY_LANES).await;
        queue.publish("x").id().await;
        queues.push(queue);
    }
    group.pause(silent);
    let began_at = Instant::now();
    let clients = queues
        .iter()
        .flat_map(|queue| (0..CLIENTS).map(move |_| queue.with_separate_connections()));
    let clients = clients.map(|queue| {
        tokio::spawn(async move {
            while began_at.elapsed() < LOAD {
                queue.publish("x").send().await.unwrap();
                sleep(Duration::from_millis(20)).await;
            }
        })
    });
    join_all(clients.collect::<Vec<_>>()).await;
    // Each call has the jobs of several clients.
    let failed = r#"command="publish",status="error""#;
    let calls = fleet.apis[0].metric_with_label("infra_lmstfy_redis_qps", failed);
    let calls = calls.await;
    print_figure(&format!("{calls} calls for {QUEUES} queues failed"));
    assert!((1.0..=2.0 * QUEUES as f64).contains(&calls), "{calls}");
    group.resume(silent);
}
