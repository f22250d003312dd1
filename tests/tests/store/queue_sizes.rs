//! Reading the sizes of queues, and its cost.

use std::collections::{BTreeSet, HashMap};
use std::process::Command;

use futures_util::{StreamExt, stream};
use tidegate_core::QueueKey;
use tidegate_store::{Store, StoreConfig};
use tidegate_testkit::{RedisOptions, print_figure};

use crate::fixture::{LIMIT, delayed, job};

#[tokio::test]
async fn only_the_wanted_buckets_are_read() {
    let redis = RedisOptions::new().start();
    let config = StoreConfig::new(redis.url());
    let store = Store::connect(&config).await.unwrap();
    let queue = |number: u32| QueueKey::try_from(format!("shop/q{number}").as_str()).unwrap();
    for number in 0..40 {
        let published = store.publish(&queue(number), &[job("x")], None).await;
        published.unwrap();
    }
    let wanted = BTreeSet::from([store.bucket_of(&queue(0)), store.bucket_of(&queue(1))]);
    let read = store.read_sizes(wanted.clone(), LIMIT).await;
    assert!(read.buckets.keys().eq(&wanted) && read.error.is_none());
    let buckets = read.buckets.values().map(|bucket| bucket.as_ref().unwrap());
    let queues = buckets.flat_map(|bucket| &bucket.queues);
    let found: BTreeSet<QueueKey> = queues.map(|listed| listed.queue.clone()).collect();
    let here = (0..40).map(queue);
    let here = here.filter(|queue| wanted.contains(&store.bucket_of(queue)));
    assert_eq!(found, here.collect());
    redis.pause().unwrap();
    let read = store.read_sizes(wanted.clone(), LIMIT / 100).await;
    redis.resume().unwrap();
    assert!(read.buckets.keys().eq(&wanted));
    assert!(read.buckets.values().all(Option::is_none));
}

/// What a server has done until now.
struct ServerUse {
    cpu_ms: f64,
    calls: u64,
    bytes_in: u64,
    bytes_out: u64,
}

impl ServerUse {
    fn read(connection: &mut redis::Connection) -> Self {
        let all: String = redis::cmd("INFO").arg("all").query(connection).unwrap();
        let lines = all.lines().filter_map(|line| line.split_once(':'));
        let values: HashMap<&str, &str> = lines.collect();
        let number = |name: &str| values[name].trim().parse::<u64>().unwrap();
        let seconds = |name: &str| values[name].trim().parse::<f64>().unwrap();
        let scripts = values.get("cmdstat_evalsha").map_or(0, |line| {
            let calls = line.trim_start_matches("calls=").split(',').next();
            calls.unwrap().parse().unwrap()
        });
        Self {
            cpu_ms: 1000.0 * (seconds("used_cpu_user") + seconds("used_cpu_sys")),
            calls: scripts,
            bytes_in: number("total_net_input_bytes"),
            bytes_out: number("total_net_output_bytes"),
        }
    }
}

/// Gives a server a real-time priority, so that no other process runs during its calls. Returns whether
/// that is permitted here.
fn prioritize(pid: u32) -> bool {
    let chrt = Command::new("chrt")
        .args(["-f", "-a", "-p", "50", &pid.to_string()])
        .status();
    chrt.is_ok_and(|it| it.success())
}

/// `TIDEGATE_SCRAPED_QUEUES` sets the number of queues. docs/benchmarks.md has its figures.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn many_queues_are_read_in_short_calls() {
    let wanted = std::env::var("TIDEGATE_SCRAPED_QUEUES").ok();
    let queues = wanted.as_ref().map_or(2_000, |text| text.parse().unwrap());
    let redis = RedisOptions::new().start();
    let config = StoreConfig::new(redis.url());
    let store = Store::connect(&config).await.unwrap();
    let publishes = (0..queues).map(|number| {
        let store = store.clone();
        async move {
            let queue = QueueKey::try_from(format!("shop/queue-{number}").as_str()).unwrap();
            let job = match number % 4 {
                0 => job("x"),
                _ => delayed("x", 86_400_000),
            };
            store.publish(&queue, &[job], None).await.unwrap();
        }
    });
    let published: Vec<()> = stream::iter(publishes).buffer_unordered(64).collect().await;
    assert_eq!(published.len(), queues);
    let client = redis::Client::open(redis.url()).unwrap();
    let mut connection = client.get_connection().unwrap();
    let mut command = |line: &[&str]| -> redis::Value {
        let mut command = redis::cmd(line[0]);
        command.arg(&line[1..]).query(&mut connection).unwrap()
    };
    let is_alone = wanted.is_some() && prioritize(redis.pid().unwrap());
    command(&["CONFIG", "SET", "slowlog-log-slower-than", "1000"]);
    command(&["SLOWLOG", "RESET"]);
    let mut read = async |buckets: BTreeSet<u16>| {
        let before = ServerUse::read(&mut connection);
        let read = store.read_sizes(buckets, LIMIT).await;
        let after = ServerUse::read(&mut connection);
        let listed = read
            .buckets
            .values()
            .map(|it| it.as_ref().unwrap().queues.len());
        let cost = format!(
            "{} calls, {} bytes to Redis, {} from it, {:.1} ms of its CPU",
            after.calls - before.calls,
            after.bytes_in - before.bytes_in,
            after.bytes_out - before.bytes_out,
            after.cpu_ms - before.cpu_ms,
        );
        (listed.sum::<usize>(), cost)
    };
    // Redis has the script from then on.
    read(BTreeSet::from([0])).await;
    let (all, cost_of_all) = read(store.all_buckets().collect()).await;
    // A pump of two.
    let (half, cost_of_half) = read(store.all_buckets().step_by(2).collect()).await;
    assert_eq!(all, queues);
    assert!(half > queues / 4 && half < queues / 4 * 3, "{half}");
    let slow: u64 = redis::cmd("SLOWLOG")
        .arg("LEN")
        .query(&mut connection)
        .unwrap();
    print_figure(&format!(
        "{queues} queues: {cost_of_all}; half of the buckets: {cost_of_half}; {slow} calls of more than 1 ms (real-time priority: {is_alone})"
    ));
}
