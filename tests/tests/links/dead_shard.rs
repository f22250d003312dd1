//! A primary of a cluster and its replica are dead or silent, and the other shards work
//! (`cluster-require-full-coverage no`).

use std::time::{Duration, Instant};

use tidegate_testkit::{ClusterGroup, QueueClient, RedisOptions, eventually, print_figure};

use crate::cluster_consumers::NO_FAILOVER_MS;
use crate::cluster_pumps::{queues_where, silent_one};
use crate::fleet::Fleet;
use crate::turn;

const PATIENCE: Duration = Duration::from_secs(60);
const NODE_TIMEOUT_MS: u32 = 1500;
/// Enough for each primary to have some of them.
const QUEUES: usize = 24;
/// The longest time that a publish to another shard may take.
const HEALTHY_MAX: Duration = Duration::from_secs(2);
/// A scrape is answered within about 3 s, even if Redis does not answer. The rest is room for a busy machine.
const PAGE_MAX: Duration = Duration::from_secs(20);
const SIZES: &str = "infra_lmstfy_redis_queue_sizes";

/// Kills the primary of this number and its replica.
async fn kill_shard(group: &mut ClusterGroup, primary: usize) {
    let replica = group.replica_of(primary).await;
    for server in [replica, primary] {
        tokio::task::block_in_place(|| group.servers[server].kill());
    }
}

async fn queues(fleet: &Fleet, namespace: &str) -> Vec<QueueClient> {
    let first = QueueClient::with_new_token(&fleet.apis[0], "default", namespace, "q0").await;
    let names = (0..QUEUES).map(|number| format!("q{number}"));
    names.map(|name| first.sibling(&name)).collect()
}

/// Publishes once to each queue. Returns the queues that accepted it, and the time of the slowest of these publishes.
async fn healthy(queues: &[QueueClient]) -> (Vec<QueueClient>, Duration) {
    let asked = queues.iter().map(|queue| {
        let queue = queue.with_separate_connections();
        tokio::spawn(async move {
            let began_at = Instant::now();
            let status = queue.publish("x").send().await.unwrap().status;
            (queue, status, began_at.elapsed())
        })
    });
    let (mut healthy, mut slowest) = (Vec::new(), Duration::ZERO);
    for asked in asked.collect::<Vec<_>>() {
        let (queue, status, took) = asked.await.unwrap();
        if status == 201 {
            slowest = slowest.max(took);
            healthy.push(queue);
        }
    }
    (healthy, slowest)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sizes_and_tokens_of_the_other_shards_are_known_beside_a_dead_one() {
    the_other_shards_serve_after(async |group| kill_shard(group, 1).await).await;
}

/// Connections stay open, and nothing is answered.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sizes_and_tokens_of_the_other_shards_are_known_beside_a_silent_one() {
    the_other_shards_serve_after(async |group| {
        let replica = group.replica_of(1).await;
        group.pause(replica);
        group.pause(1);
    })
    .await;
}

async fn the_other_shards_serve_after(event: impl AsyncFn(&mut ClusterGroup)) {
    let _turn = turn().await;
    let options = RedisOptions::new().setting("cluster-require-full-coverage", "no");
    let mut group = ClusterGroup::start_with(options, NODE_TIMEOUT_MS).await;
    let settings = format!("{}[metrics]\nrefresh = \"0s\"\n", group.settings());
    let fleet = Fleet::start(1, 1, &settings).await;
    let (api, pump) = (&fleet.apis[0], &fleet.pumps[0]);
    pump.wait_for_buckets(256).await;
    // The tokens of six namespaces are on different shards.
    let mut all = Vec::new();
    for number in 0..6 {
        all.extend(queues(&fleet, &format!("ns{number}")).await);
    }
    for queue in &all {
        queue.publish("x").id().await;
    }
    assert_eq!(pump.metric(SIZES).await, all.len() as f64);
    assert_eq!(
        pump.metric("tidegate_collection_missing_buckets").await,
        0.0
    );

    event(&mut group).await;
    // About two thirds of all queues, in every namespace, so no token is unknown.
    eventually("the other shards take jobs", PATIENCE, async || {
        let (healthy, _) = healthy(&all).await;
        let has_enough = |number| {
            let namespace = format!("ns{number}");
            let own = healthy.iter().filter(|it| it.namespace() == namespace);
            own.count() > QUEUES / 3
        };
        match (0..6).all(has_enough) && healthy.len() > all.len() / 2 {
            true => Ok(()),
            false => Err(format!("{} of {} queues", healthy.len(), all.len())),
        }
    })
    .await;
    let (healthy, slowest) = healthy(&all).await;
    print_figure(&format!(
        "{} of {} queues take jobs while a shard is dead, the slowest after {slowest:?}",
        healthy.len(),
        all.len()
    ));
    assert!(slowest < HEALTHY_MAX, "{slowest:?}");
    let began_at = Instant::now();
    let page = pump.metrics().await;
    let took = began_at.elapsed();
    assert!(took < PAGE_MAX, "{took:?}");
    assert!(api.metric("infra_lmstfy_redis_used_mem_bytes").await > 0.0);
    let info = reqwest::get(format!("{}/info", api.admin_url())).await;
    assert!(
        info.unwrap()
            .headers()
            .contains_key("tidegate-missing-buckets")
    );
    expect_sizes(&page, &healthy);
}

/// The page has the sizes of these queues, and says that other buckets are missing.
fn expect_sizes(page: &str, healthy: &[QueueClient]) {
    let value = |name: &str| {
        let line = page.lines().find(|line| line.starts_with(name));
        line.and_then(|line| line.rsplit(' ').next()?.parse::<f64>().ok())
    };
    assert_eq!(value("tidegate_collection_up{"), Some(0.0));
    let missing = value("tidegate_collection_missing_buckets{").unwrap();
    assert!((1.0..200.0).contains(&missing), "{missing}");
    for queue in healthy {
        let labels = format!(
            "namespace=\"{}\",pool=\"default\",queue=\"{}\"",
            queue.namespace(),
            queue.name()
        );
        assert!(
            page.lines()
                .any(|line| line.starts_with(SIZES) && line.contains(&labels)),
            "{labels}"
        );
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_queue_with_lanes_works_beside_a_dead_shard() {
    const LANES: u16 = 8;
    let _turn = turn().await;
    let options = RedisOptions::new().setting("cluster-require-full-coverage", "no");
    let mut group = ClusterGroup::start_with(options, NODE_TIMEOUT_MS).await;
    let fleet = Fleet::start(1, 0, &group.settings()).await;
    let api = &fleet.apis[0];
    let queue = fleet.queue("wide").await;
    assert_eq!(queue.set_lanes(api, LANES).await, u64::from(LANES));
    queue.publish("x").id().await;
    queue.destroy().await;

    kill_shard(&mut group, 1).await;
    eventually("a publish fails", PATIENCE, async || {
        match queue.publish("x").send().await.unwrap().status {
            500 => Ok(()),
            other => Err(other),
        }
    })
    .await;
    // From then on publishes leave out the lanes of that server.
    for number in 0..60 {
        queue.publish(number.to_string()).id().await;
    }
    while let Some(job) = queue.consume().timeout_s(1).job().await {
        queue.ack(&job.id).await;
    }
    // A consumer waits on the other lanes.
    let began_at = Instant::now();
    let waiting = tokio::spawn(
        queue
            .with_separate_connections()
            .consume()
            .timeout_s(60)
            .job(),
    );
    api.wait_for_waiting_consumers(1).await;
    let id = queue.publish("late").id().await;
    assert_eq!(waiting.await.unwrap().unwrap().id, id);
    print_figure(&format!("a parked consumer: {:?}", began_at.elapsed()));
    queue.ack(&id).await;
    let empty = queue.consume().timeout_s(2).send().await.unwrap();
    empty.expect(404);
    for server in [1, 4] {
        tokio::task::block_in_place(|| group.servers[server].restart()).unwrap();
    }
    eventually("the shard is used again", PATIENCE, async || {
        match api
            .log()
            .contains("the server of a lane accepts publishes again")
        {
            true => Ok(()),
            false => Err("not yet"),
        }
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_silent_primary_delays_no_durable_publish_to_the_others() {
    const PUBLISHES: usize = 3;
    /// Less than the timeout of a call, 3 s.
    const TOOK_MAX: Duration = Duration::from_millis(2500);
    /// At least one publish is this fast: not all of them meet a stall of the machine. It is the timeout of a
    /// connection, for which a publish would wait once the silent connection is replaced.
    const FASTEST_MAX: Duration = Duration::from_secs(1);
    let _turn = turn().await;
    let mut group = ClusterGroup::start_with(RedisOptions::new(), NO_FAILOVER_MS).await;
    let settings = format!(
        "{}[durability]\ndefault = \"replica:1\"\n",
        group.settings()
    );
    let fleet = Fleet::start(1, 0, &settings).await;
    let silent = silent_one(&group).await;
    let others = queues_where(&group, &fleet, 1, |primary| primary != silent).await;
    let of_silent = queues_where(&group, &fleet, 1, |primary| primary == silent).await;
    group.pause(silent);
    let failed = of_silent[0].publish("x").send().await.unwrap();
    failed.expect(500);
    let mut fastest = Duration::MAX;
    for _ in 0..PUBLISHES {
        let began_at = Instant::now();
        let answer = others[0].publish("x").send().await.unwrap().expect(201);
        let took = began_at.elapsed();
        print_figure(&format!("replica:1 beside a silent primary: {took:?}"));
        assert_eq!(answer.header("x-durability"), Some("replica:1"));
        assert!(took < TOOK_MAX, "{took:?}");
        fastest = fastest.min(took);
    }
    assert!(fastest < FASTEST_MAX, "{fastest:?}");
    group.resume(silent);
    eventually("it confirms publishes again", PATIENCE, async || {
        let answer = of_silent[0].publish("x").send().await.unwrap();
        match answer.status {
            201 => Ok(()),
            other => Err(other),
        }
    })
    .await;
}
