//! The sizes of queues: metrics of the pumps, and read by an API on request only.

use std::collections::BTreeSet;
use std::time::Duration;

use serde_json::Value;
use tidegate_core::keys::DeploymentKeys;
use tidegate_testkit::{Answer, Daemon, QueueClient, RawHttp, Stack, eventually};

use crate::exposition::{by, parse};
use crate::figures::{of_queue, scraped};

pub(crate) const SIZES_AT_ONCE: &str = "[metrics]\nrefresh = \"0s\"";
const RARELY: &str = "[metrics]\nrefresh = \"1h\"";
const READY: &str = "infra_lmstfy_redis_queue_sizes";
const LIMIT: Duration = Duration::from_secs(30);

/// How many buckets a process has read, if each has few queues.
async fn reads(daemon: &Daemon) -> f64 {
    let calls = ("infra_lmstfy_redis_qps", "command=\"list_queues\"");
    daemon.metric_with_label(calls.0, calls.1).await
}

/// The queues of a namespace that have a series at this pump.
async fn queues_at(pump: &Daemon, namespace: &str) -> BTreeSet<String> {
    let families = parse(&pump.metrics().await);
    let ready = by(&families, READY, &["namespace", "queue"]);
    let queues = ready.into_keys().filter(|labels| labels[0] == namespace);
    queues.map(|labels| labels[1].clone()).collect()
}

async fn get(daemon: &Daemon, path: &str) -> Answer {
    let mut http = RawHttp::connect(daemon.admin()).await;
    http.request("GET", path, &[], b"").await;
    http.answer().await.unwrap()
}

async fn start_with_pump(config: &str) -> (Stack, QueueClient) {
    let stack = Stack::builder().pump_config(config).start().await;
    stack.pump(0).wait_for_buckets(256).await;
    let queue = stack.queue("q").await;
    (stack, queue)
}

fn redis<T: redis::FromRedisValue>(stack: &Stack, command: &[&str]) -> T {
    let client = redis::Client::open(stack.redis.url()).unwrap();
    let mut command_line = redis::cmd(command[0]);
    command_line.arg(&command[1..]);
    command_line
        .query(&mut client.get_connection().unwrap())
        .unwrap()
}

#[tokio::test]
async fn the_jobs_of_a_queue_are_the_sum_over_pumps() {
    const LANES: u16 = 32;
    let stack = Stack::builder().pumps(2).pump_config(SIZES_AT_ONCE);
    let stack = stack.start().await;
    for number in 0..2 {
        stack.pump(number).wait_for_buckets(128).await;
    }
    let queue = stack.queue("wide").await;
    queue.set_lanes(stack.api(0), LANES).await;
    for _ in 0..100 {
        queue.publish("x").id().await;
    }
    let mut ready = Vec::new();
    for number in 0..2 {
        let families = scraped(stack.pump(number)).await;
        ready.push(of_queue(&families, READY, &queue).unwrap());
        assert_eq!(by(&families, "tidegate_collection_up", &[])[&vec![]], 1.0);
    }
    assert!(ready.iter().all(|jobs| *jobs > 0.0), "{ready:?}");
    assert_eq!(ready.iter().sum::<f64>(), 100.0);
    stack.finish().await;
}

/// A pump reads a bucket only when it begins to lead it here: sizes are used for an hour.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_series_of_a_bucket_move_with_its_leader() {
    const QUEUES: usize = 60;
    let stack = Stack::builder().pumps(2).pump_config(RARELY).start().await;
    let (stays, leaves) = (stack.pump(0), stack.pump(1));
    let first = stack.queue("q0").await;
    for pump in [stays, leaves] {
        pump.wait_for_buckets(128).await;
        // It reads the last buckets, too.
        assert!(queues_at(pump, first.namespace()).await.is_empty());
    }
    let names: BTreeSet<String> = (0..QUEUES).map(|number| format!("q{number}")).collect();
    for name in &names {
        first.sibling(name).publish("x").id().await;
    }
    assert!(queues_at(stays, first.namespace()).await.is_empty());
    let before = reads(stays).await;
    leaves.stop(LIMIT).await;
    stays.wait_for_buckets(256).await;
    let gained = queues_at(stays, first.namespace()).await;
    assert!(!gained.is_empty() && gained.len() < QUEUES, "{gained:?}");
    assert_eq!(reads(stays).await, before + 128.0, "only these are read");
    leaves.restart().await;
    eventually("the buckets are shared again", LIMIT, async || {
        // The old leader is scraped last: it must have ended what the new leader has begun.
        let begun = queues_at(leaves, first.namespace()).await;
        let left = queues_at(stays, first.namespace()).await;
        let twice: Vec<_> = begun.intersection(&left).collect();
        assert!(twice.is_empty(), "{twice:?}");
        match leaves.metric("tidegate_pump_buckets_held").await {
            128.0 => Ok(()),
            held => Err(held),
        }
    })
    .await;
    let taken = queues_at(leaves, first.namespace()).await;
    let kept = queues_at(stays, first.namespace()).await;
    assert!(kept.is_subset(&gained) && kept.is_disjoint(&taken));
    assert!(gained.difference(&kept).all(|name| taken.contains(name)));
    // What it knew of these buckets before is not shown when it leads them again.
    for name in &names {
        first.sibling(name).publish("x").id().await;
    }
    leaves.stop(LIMIT).await;
    stays.wait_for_buckets(256).await;
    let families = scraped(stays).await;
    let mut lost = gained.difference(&kept).peekable();
    assert!(lost.peek().is_some() && !kept.is_empty());
    for name in lost {
        assert_eq!(of_queue(&families, READY, &first.sibling(name)), Some(2.0));
    }
    for name in &kept {
        assert_eq!(of_queue(&families, READY, &first.sibling(name)), Some(1.0));
    }
    stack.finish().await;
}

#[tokio::test]
async fn a_timer_that_the_leading_pump_does_not_move_is_overdue() {
    const OVERDUE: &str = "tidegate_oldest_overdue_seconds";
    let (stack, queue) = start_with_pump(SIZES_AT_ONCE).await;
    let id = queue.publish("x").delay_s(2).id().await;
    let bucket = id.parse::<tidegate_core::JobId>().unwrap().bucket();
    let keys = DeploymentKeys::new(256);
    let lock = keys.keys(bucket).lock();
    // Calls of the pump on this bucket fail.
    let _: u64 = redis(&stack, &["DEL", &lock]);
    let _: u64 = redis(&stack, &["RPUSH", &lock, "x"]);
    let grows = async || match stack.pump(0).metric(OVERDUE).await {
        overdue_s if overdue_s > 1.0 => Ok(()),
        overdue_s => Err(overdue_s),
    };
    eventually("it is overdue", LIMIT, grows).await;
    let _: u64 = redis(&stack, &["DEL", &lock]);
    queue.consume().timeout_s(20).job().await.unwrap();
    assert!(stack.pump(0).metric(OVERDUE).await < 1.0);
    stack.finish().await;
}

#[tokio::test]
async fn a_destroyed_queue_has_no_size_metric() {
    let (stack, queue) = start_with_pump(SIZES_AT_ONCE).await;
    let ready = async |queue: &QueueClient| {
        let families = scraped(stack.pump(0)).await;
        of_queue(&families, READY, queue)
    };
    queue.publish("x").id().await;
    assert_eq!(ready(&queue).await, Some(1.0));
    queue.consume().job().await.unwrap();
    // An empty queue that is known has a size of 0.
    assert_eq!(ready(&queue).await, Some(0.0));
    let other = queue.sibling("other");
    other.publish("x").id().await;
    other.destroy().await;
    assert_eq!(ready(&other).await, None);
    stack.finish().await;
}

#[tokio::test]
async fn scrapes_are_answered_soon_while_redis_is_paused() {
    let stack = Stack::builder().api_config(SIZES_AT_ONCE);
    let stack = stack.pump_config(SIZES_AT_ONCE).start().await;
    let (api, pump) = (stack.api(0), stack.pump(0));
    pump.wait_for_buckets(256).await;
    let queue = stack.queue("q").await;
    queue.publish("x").id().await;
    assert_eq!(pump.metric("tidegate_collection_up").await, 1.0);
    let up = "tidegate_collection_up";
    let failures = "tidegate_collection_failures_total";
    let failed = pump.metric(failures).await;
    stack.redis.pause().unwrap();
    let scrape = tokio::time::timeout(LIMIT, scraped(pump));
    let families = scrape.await.unwrap();
    assert_eq!(of_queue(&families, READY, &queue), None);
    assert_eq!(by(&families, up, &[])[&vec![]], 0.0);
    assert_eq!(by(&families, failures, &[])[&vec![]], failed + 1.0);
    let scrape = tokio::time::timeout(LIMIT, scraped(api));
    let families = scrape.await.unwrap();
    let published = "infra_lmstfy_redis_publish_queue_jobs";
    assert_eq!(of_queue(&families, published, &queue), Some(1.0));
    assert!(by(&families, "infra_lmstfy_redis_used_mem_bytes", &[]).is_empty());
    get(api, "/info").await.expect(500);
    stack.redis.resume().unwrap();
    let back = async || match of_queue(&scraped(pump).await, READY, &queue) {
        Some(1.0) => Ok(()),
        other => Err(format!("{other:?}")),
    };
    eventually("the figures are back", LIMIT, back).await;
    stack.finish().await;
}

/// A pump that leads all buckets, and was not scraped yet.
async fn start_without_scrape() -> (Stack, QueueClient) {
    let stack = Stack::builder().pump_config(RARELY).start().await;
    eventually("the pump is ready", LIMIT, async || {
        match get(stack.pump(0), "/readyz").await {
            answer if answer.status == 200 => Ok(()),
            answer => Err(answer),
        }
    })
    .await;
    let queue = stack.queue("q").await;
    queue.publish("x").id().await;
    (stack, queue)
}

#[tokio::test]
async fn concurrent_scrapes_read_redis_once() {
    let (stack, queue) = start_without_scrape().await;
    let pump = stack.pump(0);
    let (one, two, three) = tokio::join!(scraped(pump), scraped(pump), scraped(pump));
    for families in [one, two, three] {
        assert_eq!(of_queue(&families, READY, &queue), Some(1.0));
    }
    // The result is cached.
    queue.publish("x").id().await;
    let families = scraped(pump).await;
    assert_eq!(of_queue(&families, READY, &queue), Some(1.0));
    let age_s = by(&families, "tidegate_collection_age_seconds", &[])[&vec![]];
    assert!(age_s > 0.0, "{age_s}");
    assert_eq!(reads(pump).await, 256.0, "one call for each bucket");
    stack.finish().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_read_is_finished_although_its_scraper_has_left() {
    let (stack, queue) = start_without_scrape().await;
    let pump = stack.pump(0);
    stack.redis.pause().unwrap();
    let mut scrape = RawHttp::connect(pump.admin()).await;
    scrape.request("GET", "/metrics", &[], b"").await;
    tokio::time::sleep(Duration::from_millis(500)).await;
    drop(scrape);
    tokio::time::sleep(Duration::from_millis(500)).await;
    stack.redis.resume().unwrap();
    let families = scraped(pump).await;
    assert_eq!(of_queue(&families, READY, &queue), Some(1.0));
    // A read that ended with its scraper would have made some calls, and the next one all of them.
    assert_eq!(reads(pump).await, 256.0);
    stack.finish().await;
}

/// Each page of an API is of the same read; scrapes of it read no queue.
#[tokio::test]
async fn an_api_reads_sizes_on_request_and_uses_them_for_a_while() {
    let stack = Stack::builder().api_config(RARELY).start().await;
    let queue = stack.queue("q").await;
    queue.publish("x").id().await;
    let api = stack.api(0);
    assert_eq!(reads(api).await, 0.0);
    let info = async || -> Value { get(api, "/info").await.expect(200).json() };
    let known = serde_json::json!([queue.name()]);
    assert_eq!(info().await[queue.namespace()], known);
    assert_eq!(reads(api).await, 256.0);
    queue.sibling("later").publish("x").id().await;
    assert_eq!(info().await[queue.namespace()], known);
    let page = get(api, "/ui/default/queues").await.expect(200).text();
    assert!(page.contains("1 queue, page 1 of 1"), "{page}");
    assert_eq!(reads(api).await, 256.0);
    stack.finish().await;
}
