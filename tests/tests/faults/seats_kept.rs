//! Redis is unavailable for a while, and consumers that wait keep their seats.

use std::collections::HashSet;
use std::time::{Duration, Instant};

use tidegate_testkit::{
    Daemon, QueueClient, RawHttp, ReceivedJob, RedisOptions, Stack, connect_to_redis, eventually,
    print_figure,
};

use crate::parked::{Parked, park};

const QUEUES: usize = 10;
const OF_EACH: usize = 20;
const CONSUMERS: usize = QUEUES * OF_EACH;
const DATABASE_WITHOUT_JOBS: i64 = 1;
/// Keys that take time to load.
const BALLAST: usize = 20_000;
/// The longest time until Redis is back, and from the publish of a job after an outage until it is delivered.
const DELIVERED_WITHIN: Duration = Duration::from_secs(5);

/// A Redis that needs about 2 s to load its ballast, and answers `LOADING` meanwhile.
fn slow_to_load() -> RedisOptions {
    RedisOptions::new()
        .setting("key-load-delay", "100")
        .setting("loading-process-events-interval-bytes", "1024")
}

async fn load_ballast(stack: &Stack) {
    let mut client = redis::Client::open(stack.redis.url()).unwrap();
    let info = client.get_connection_info().clone();
    let settings = info.redis_settings().clone().set_db(DATABASE_WITHOUT_JOBS);
    client = redis::Client::open(info.set_redis_settings(settings)).unwrap();
    let mut connection = connect_to_redis(&client).await.unwrap();
    let mut pipeline = redis::pipe();
    for number in 0..BALLAST {
        pipeline.set(format!("ballast-{number}"), "x").ignore();
    }
    pipeline.exec_async(&mut connection).await.unwrap();
}

async fn queues(stack: &Stack) -> Vec<QueueClient> {
    let first = stack.queue("q0").await;
    let name = |number| first.sibling(&format!("q{number}"));
    (0..QUEUES).map(name).collect()
}

/// Publishes a job for each consumer, and expects that each of them gets one job and no job comes twice. The consumers
/// are in the order of their queues.
async fn all_are_served(queues: &[QueueClient], parked: Vec<Parked>) {
    assert!(parked.iter().all(Parked::is_waiting), "a seat was lost");
    // The first calls after an outage may meet connections that have ended.
    let is_back = async || match queues[0].peek().await {
        answer if answer.status == 404 => Ok(()),
        answer => Err(answer),
    };
    eventually("Redis is back", DELIVERED_WITHIN, is_back).await;
    let of_each = parked.len() / queues.len();
    let bodies: Vec<String> = (0..of_each).map(|number| number.to_string()).collect();
    let mut ids = HashSet::new();
    let mut published_at = Vec::new();
    for queue in queues {
        published_at.push(Instant::now());
        ids.extend(queue.publish_bulk(&bodies).ids().await);
    }
    let mut last = Duration::ZERO;
    for (number, consumer) in parked.into_iter().enumerate() {
        let outcome = consumer.outcome().await;
        last = last.max(outcome.at - published_at[number / of_each]);
        let delivered = ReceivedJob::parse_all(&outcome.answer.expect(200));
        assert!(ids.remove(&delivered[0].id), "{delivered:?}");
    }
    print_figure(&format!("served {last:?} after the publish at the latest"));
    assert!(last < DELIVERED_WITHIN, "{last:?}");
    assert!(ids.is_empty(), "{ids:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn parked_consumers_get_their_jobs_after_redis_has_loaded() {
    let mut stack = Stack::builder().redis(slow_to_load()).start().await;
    load_ballast(&stack).await;
    let queues = queues(&stack).await;
    let parked = park(stack.api(0), &queues, OF_EACH, 60).await;
    assert_eq!(parked.len(), CONSUMERS);
    restart(&mut stack);
    assert!(stack.api(0).log().contains("not ready"), "LOADING was seen");
    all_are_served(&queues, parked).await;
    stack.finish().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn parked_consumers_without_a_job_are_answered_at_their_timeout_after_an_outage() {
    // Loading takes 2 s, and more on a busy machine. It must be over before the consumers are answered.
    const TIMEOUT: Duration = Duration::from_secs(25);
    let mut stack = Stack::builder().redis(slow_to_load()).start().await;
    load_ballast(&stack).await;
    let queues = queues(&stack).await;
    let parked = park(stack.api(0), &queues, OF_EACH, TIMEOUT.as_secs()).await;
    restart(&mut stack);
    assert!(stack.api(0).log().contains("not ready"), "LOADING was seen");
    for consumer in parked {
        let outcome = consumer.outcome().await;
        outcome.answer.expect(404);
        assert!(outcome.waited >= TIMEOUT, "{:?}", outcome.waited);
    }
    stack.finish().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn parked_consumers_get_their_jobs_after_a_crash_of_redis() {
    let mut stack = Stack::builder().start().await;
    let queues = queues(&stack).await;
    let parked = park(stack.api(0), &queues, OF_EACH, 60).await;
    stack.redis.kill();
    tokio::time::sleep(Duration::from_secs(3)).await;
    tokio::task::block_in_place(|| stack.redis.restart().unwrap());
    all_are_served(&queues, parked).await;
    stack.finish().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn parked_consumers_get_their_jobs_after_a_pause_of_redis() {
    let stack = Stack::builder().start().await;
    let queues = queues(&stack).await;
    let parked = park(stack.api(0), &queues, OF_EACH, 60).await;
    stack.redis.pause().unwrap();
    // Longer than a call may take, and than the time between two polls of a queue.
    tokio::time::sleep(Duration::from_secs(9)).await;
    stack.redis.resume().unwrap();
    all_are_served(&queues, parked).await;
    stack.finish().await;
}

/// Redis executes the calls that were sent during the pause, and no process reads their replies. A lease for one of
/// them would use the only attempt of a job that no consumer has seen.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn jobs_lose_no_attempt_while_redis_is_paused() {
    let stack = Stack::builder().start().await;
    let queues = queues(&stack).await;
    let mut parked = park(stack.api(0), &queues, 1, 30).await;
    for queue in &queues {
        queue.publish("due").delay_s(2).tries(1).id().await;
    }
    let ready = queues[0].sibling("ready");
    ready.publish("ready").tries(1).id().await;
    tokio::time::sleep(Duration::from_secs(1)).await;
    stack.redis.pause().unwrap();
    // Its first call times out before Redis continues.
    parked.push(Parked::start(stack.api(0), &ready, 30).await);
    tokio::time::sleep(Duration::from_secs(9)).await;
    stack.redis.resume().unwrap();
    let resumed_at = Instant::now();
    for consumer in parked {
        let outcome = consumer.outcome().await;
        outcome.answer.expect(200);
        let later = outcome.at.saturating_duration_since(resumed_at);
        assert!(later < DELIVERED_WITHIN, "{later:?}");
    }
    stack.finish().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn consumes_fail_at_their_timeout_during_an_outage() {
    let mut stack = Stack::builder().pumps(0).start().await;
    let queue = stack.queue("q").await;
    let parked = Parked::start(stack.api(0), &queue, 8).await;
    stack.api(0).wait_for_waiting_consumers(1).await;
    stack.redis.kill();
    let began_at = Instant::now();
    queue.consume().send().await.unwrap().expect(500);
    let took = began_at.elapsed();
    assert!(took < Duration::from_secs(3), "{took:?}");
    assert!(parked.is_waiting());
    let outcome = parked.outcome().await;
    outcome.answer.expect(500);
    assert!(outcome.waited >= Duration::from_secs(8));
    tokio::task::block_in_place(|| stack.redis.restart().unwrap());
    stack.finish().await;
}

async fn until_served(api: &Daemon, queue: &QueueClient) {
    let token = [("X-Token".to_owned(), queue.token().to_owned())];
    let target = format!("{}/size", queue.path());
    let served = async || {
        let mut http = RawHttp::connect(api.listen()).await;
        http.request("GET", &target, &token, b"").await;
        match http.answer().await.map(|answer| answer.status) {
            Some(200) => Ok(()),
            other => Err(format!("{other:?}")),
        }
    };
    eventually("requests are served", Duration::from_secs(20), served).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_api_stops_promptly_during_an_outage() {
    let mut stack = Stack::builder().apis(2).pumps(0).start().await;
    let queues = queues(&stack).await;
    for api in 0..2 {
        // For up to 2 s after an outage a request may be answered 500.
        until_served(stack.api(api), &queues[0]).await;
        let parked = park(stack.api(api), &queues, OF_EACH, 60).await;
        match api {
            0 => stack.redis.pause().unwrap(),
            _ => stack.redis.kill(),
        }
        tokio::time::sleep(Duration::from_secs(6)).await;
        let stopped_at = Instant::now();
        stack.api(api).stop(Duration::from_secs(8)).await;
        let took = stopped_at.elapsed();
        print_figure(&format!("a stop during an outage took {took:?}"));
        // A call that Redis does not answer ends after 3 s.
        assert!(took < Duration::from_secs(5), "{took:?}");
        for consumer in parked {
            consumer.outcome().await.answer.expect(404);
        }
        stack.redis.resume().unwrap_or_default();
    }
    tokio::task::block_in_place(|| stack.redis.restart().unwrap());
    stack.finish().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn failing_calls_are_bounded_with_many_queues() {
    const MANY: usize = 1000;
    const SAMPLE: Duration = Duration::from_secs(5);
    const FAILURES_PER_SECOND_MAX: f64 = 150.0;
    let mut stack = Stack::builder().pumps(0).start().await;
    let first = stack.queue("q").await;
    let queues: Vec<QueueClient> = (0..MANY)
        .map(|number| first.sibling(&format!("q{number}")))
        .collect();
    let parked = park(stack.api(0), &queues, 1, 90).await;
    stack.redis.kill();
    let failures = async || stack.api(0).metric("tidegate_storage_failures_total").await;
    // Each queue is polled once more before its calls are known to fail.
    tokio::time::sleep(Duration::from_secs(7)).await;
    let before = failures().await;
    tokio::time::sleep(SAMPLE).await;
    let rate = (failures().await - before) / SAMPLE.as_secs_f64();
    print_figure(&format!(
        "{MANY} queues with parked consumers, Redis down: {rate:.0} failing calls a second"
    ));
    assert!(rate < FAILURES_PER_SECOND_MAX, "{rate}");
    // Calls that do not serve consumers fail about three times a second.
    assert!(rate >= 10.0, "few calls are repeated: {rate}");
    tokio::task::block_in_place(|| stack.redis.restart().unwrap());
    all_are_served(&queues, parked).await;
    stack.finish().await;
}

/// A pool that moves reads from two servers. One of them does not answer.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_silent_server_does_not_block_jobs_of_another_server() {
    /// Room for a busy machine, and less than a call to the old pool waits: 3 s, also if it needs a new connection.
    const WAITED_MAX: Duration = Duration::from_millis(2500);
    let old = RedisOptions::new().start();
    let pool = format!(
        "[pool.old]\nurl = \"{}\"\nmigrate_to = \"default\"\nconnect_timeout = \"10s\"",
        old.url()
    );
    let stack = Stack::builder().api_config(&pool).start().await;
    let queue = stack.queue_of("old", "shop", "orders").await;
    let parked = Parked::start(stack.api(0), &queue, 60).await;
    stack.api(0).wait_for_waiting_consumers(1).await;
    old.pause().unwrap();
    tokio::time::sleep(Duration::from_secs(6)).await;
    queue.publish("1").id().await;
    parked.outcome().await.answer.expect(200);

    let late = Parked::start(stack.api(0), &queue, 60).await;
    queue.publish("2").id().await;
    let outcome = late.outcome().await;
    outcome.answer.expect(200);
    // The consumer waits at most 0.27 s for the call to the old pool.
    assert!(outcome.waited < WAITED_MAX, "{:?}", outcome.waited);
    queue.publish("3").id().await;
    queue.consume().send().await.unwrap().expect(200);

    let in_vain = Parked::start(stack.api(0), &queue, 8).await;
    in_vain.outcome().await.answer.expect(404);
    queue.consume().send().await.unwrap().expect(500);
    old.resume().unwrap();
    stack.finish().await;
}

fn restart(stack: &mut Stack) {
    tokio::task::block_in_place(|| {
        stack.redis.kill();
        stack.redis.restart().unwrap();
    });
}
