//! The sizes of all queues, stored by one process for the others.

use std::process::Command;
use std::time::Duration;

use futures_util::{StreamExt, stream};
use tidegate_core::QueueKey;
use tidegate_store::{SizesAnswer, SizesClaim, SizesVersion, Store, StoreConfig};
use tidegate_testkit::{RedisOptions, print_figure};

use crate::fixture::{LIMIT, START, StoreFixture, all_queues, delayed, fixture, job};

const REFRESH: Duration = Duration::from_secs(5);
const LEASE: Duration = Duration::from_secs(4);

async fn claim(f: &StoreFixture, now_ms: u64) -> SizesAnswer {
    let sizes = f.store.at(now_ms).shared_sizes();
    sizes.claim(REFRESH, LEASE, None).await.unwrap()
}

fn claimed(answer: SizesAnswer) -> SizesClaim {
    match answer {
        SizesAnswer::Claimed(claim) => claim,
        other => panic!("{other:?}"),
    }
}

fn recent(answer: SizesAnswer) -> SizesVersion {
    match answer {
        SizesAnswer::Recent(version) => version,
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn one_claim_at_a_time_and_the_last_one_stores() {
    let f = fixture().await;
    f.publish(START, job("x")).await;
    let sizes = f.store.shared_sizes();
    let slow = claimed(claim(&f, START).await);
    assert!(matches!(claim(&f, START + 3_999).await, SizesAnswer::Busy));
    let second = claimed(claim(&f, START + 4_000).await);
    let all = f.store.all_queues(LIMIT).await;
    assert!(!sizes.finish(&slow, &all, REFRESH).await.unwrap());
    assert!(sizes.finish(&second, &all, REFRESH).await.unwrap());
    let version = recent(claim(&f, START + 8_999).await);
    assert_eq!(version.age, Duration::from_millis(4_999));
    assert_eq!(version.id, second.id);
    let read = sizes.read(&version).await.unwrap().unwrap();
    assert_eq!(read.queues, all.queues);
    // The next ones are written beside those that are read, whose pages are then deleted.
    let third = claimed(claim(&f, START + 9_000).await);
    assert!(sizes.read(&version).await.unwrap().is_some());
    assert!(sizes.finish(&third, &all, REFRESH).await.unwrap());
    assert!(sizes.read(&version).await.unwrap().is_none());
    let damaged = sizes.claim(REFRESH, LEASE, Some(&third.id)).await.unwrap();
    assert!(matches!(damaged, SizesAnswer::Claimed(_)));
    let ttl: i64 = redis::cmd("PTTL")
        .arg("tg:sizes:1")
        .query(&mut f.connection())
        .unwrap();
    assert!((1..=70_000).contains(&ttl), "{ttl}");
}

/// Sizes of many queues are recent for longer, unless some are missing.
#[tokio::test]
async fn sizes_that_lack_some_queues_are_looked_for_again_after_the_interval() {
    let f = fixture().await;
    f.publish(START, job("x")).await;
    let sizes = f.store.shared_sizes();
    let mut all = f.store.all_queues(LIMIT).await;
    let queue = all.queues[0].clone();
    all.queues.resize(5_000, queue);
    let refresh_ms = REFRESH.as_millis() as u64;
    let mut now_ms = START;
    for missing_buckets in [1, 0] {
        all.missing_buckets = missing_buckets;
        let claim_now = claimed(claim(&f, now_ms).await);
        assert!(sizes.finish(&claim_now, &all, REFRESH).await.unwrap());
        now_ms += refresh_ms;
        let answer = claim(&f, now_ms).await;
        let is_recent = matches!(answer, SizesAnswer::Recent(_));
        assert_eq!(is_recent, missing_buckets == 0, "{answer:?}");
        // The claim of the other case has ended by then.
        now_ms += refresh_ms;
    }
}

/// Milliseconds of CPU that the server has used.
fn cpu_ms(connection: &mut redis::Connection) -> f64 {
    let info: String = redis::cmd("INFO").arg("cpu").query(connection).unwrap();
    let seconds = |name: &str| -> f64 {
        let line = info.lines().find_map(|line| line.strip_prefix(name));
        line.and_then(|line| line.strip_prefix(':')?.trim().parse().ok())
            .unwrap()
    };
    1000.0 * (seconds("used_cpu_user") + seconds("used_cpu_sys"))
}

/// Gives a server a real-time priority, so that the times of its calls do not contain those of other processes. Returns whether
/// that is permitted here.
fn prioritize(pid: u32) -> bool {
    let chrt = Command::new("chrt")
        .args(["-f", "-a", "-p", "50", &pid.to_string()])
        .status();
    chrt.is_ok_and(|it| it.success())
}

/// `TIDEGATE_SCRAPED_QUEUES` sets the number of queues. The figures are those of docs/benchmarks.md.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn many_processes_cost_little_more_than_one() {
    const PROCESSES: usize = 20;
    let wanted = std::env::var("TIDEGATE_SCRAPED_QUEUES").ok();
    let queues = wanted.as_ref().map_or(2_000, |text| text.parse().unwrap());
    let redis = RedisOptions::new().start();
    let mut config = StoreConfig::new(redis.url());
    config.buckets = 256;
    let store = Store::connect(&config).await.unwrap();
    let publishes = (0..queues).map(|number| {
        let store = store.clone();
        async move {
            let queue = QueueKey::try_from(format!("shop/queue-{number}").as_str()).unwrap();
            let job = if number % 4 == 0 {
                job("x")
            } else {
                delayed("x", 86_400_000)
            };
            store.publish(&queue, &[job], None).await.unwrap();
        }
    });
    let published: Vec<()> = stream::iter(publishes).buffer_unordered(64).collect().await;
    assert_eq!(published.len(), queues);
    let client = redis::Client::open(redis.url()).unwrap();
    let mut connection = client.get_connection().unwrap();
    let command = |line: &str| {
        let mut words = line.split(' ');
        let mut command = redis::cmd(words.next().unwrap());
        command.arg(words.collect::<Vec<_>>());
        command
    };
    let is_alone = wanted.is_some() && prioritize(redis.pid().unwrap());
    let slow = command("CONFIG SET slowlog-log-slower-than 1000");
    slow.exec(&mut connection).unwrap();
    command("SLOWLOG RESET").exec(&mut connection).unwrap();
    let sizes = store.shared_sizes();
    let before_ms = cpu_ms(&mut connection);
    let claim = claimed(sizes.claim(REFRESH, LEASE, None).await.unwrap());
    let collected = all_queues(&store).await;
    assert_eq!(collected.len(), queues);
    let all = store.all_queues(LIMIT).await;
    let twice_ms = cpu_ms(&mut connection);
    assert!(sizes.finish(&claim, &all, REFRESH).await.unwrap());
    let stored_ms = cpu_ms(&mut connection);
    for _ in 1..PROCESSES {
        let version = recent(sizes.claim(REFRESH, LEASE, None).await.unwrap());
        let read = sizes.read(&version).await.unwrap().unwrap();
        assert_eq!(read.queues.len(), queues);
    }
    let read_ms = cpu_ms(&mut connection);
    let slow: u64 = command("SLOWLOG LEN").query(&mut connection).unwrap();
    print_figure(&format!(
        "{queues} queues: CPU of Redis to collect {:.1} ms, to store {:.1} ms, to read in each further process {:.2} ms; {slow} calls of more than 1 ms (real-time priority: {is_alone})",
        (twice_ms - before_ms) / 2.0,
        stored_ms - twice_ms,
        (read_ms - stored_ms) / (PROCESSES - 1) as f64,
    ));
}
