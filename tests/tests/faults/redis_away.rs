//! Redis goes away in the middle of traffic, and comes back.

use std::time::{Duration, Instant};

use tidegate_testkit::{RedisOptions, Stack, Traffic, eventually, figure};

use crate::turn;

const PUBLISHERS: usize = 4;
const CONSUMERS: usize = 8;
/// The longest time that an answer may take while nobody listens; consumers wait for 1 s of it.
const ANSWER_MAX: Duration = Duration::from_secs(5);
/// The same while somebody listens and says nothing: a request may have to wait for the end of a call
/// that somebody else began, and then for its own, each up to the command timeout of 3 s.
const SILENT_ANSWER_MAX: Duration = Duration::from_millis(7500);
/// The shortest time that Redis is away.
const OUTAGE_MIN: Duration = Duration::from_secs(3);
const RECOVERY_MAX: Duration = Duration::from_secs(10);

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_was_acknowledged_outlives_a_redis_that_crashed() {
    away(ANSWER_MAX, |stack| stack.redis.kill()).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_was_acknowledged_outlives_a_redis_that_was_stopped() {
    away(ANSWER_MAX, |stack| assert!(stack.redis.stop())).await;
}

/// Connections stay open and nothing is answered: the worst that a network can do.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_redis_that_falls_silent_does_not_hold_requests_for_ever() {
    let pause = |stack: &mut Stack| stack.redis.pause().unwrap();
    away(SILENT_ANSWER_MAX, pause).await;
}

/// lmstfy hides the failure of a batch behind "no job available", and answers a look at a job without
/// a body.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_route_says_that_it_failed_and_works_again() {
    let _turn = turn().await;
    let mut stack = Stack::builder().pumps(0).start().await;
    let queue = stack.queue("q").await;
    let id = queue.publish("x").id().await;
    stack.redis.kill();
    let path = queue.path();
    for (method, target) in [
        ("PUT", path.clone()),
        ("PUT", format!("{path}/job/{id}")),
        ("GET", path.clone()),
        ("GET", format!("{path}?timeout=1")),
        ("GET", format!("{path}?count=2")),
        ("GET", format!("{path},other?count=2&timeout=1")),
        ("GET", format!("{path}/peek")),
        ("GET", format!("{path}/job/{id}")),
        ("DELETE", format!("{path}/job/{id}")),
        ("DELETE", path.clone()),
        ("GET", format!("{path}/deadletter")),
        ("PUT", format!("{path}/deadletter")),
        ("DELETE", format!("{path}/deadletter")),
        ("GET", format!("{path}/size")),
        ("GET", format!("{path}/deadletter/size")),
    ] {
        let begin = Instant::now();
        let answer = queue.raw(method, &target).await;
        let took = begin.elapsed();
        assert_eq!(answer.status, 500, "{method} {target}: {answer}");
        assert_eq!(answer.text(), r#"{"error":"internal error"}"#);
        assert!(took <= ANSWER_MAX, "{method} {target} took {took:?}");
    }
    // A token that was never used in this namespace cannot be checked.
    let unchecked = queue.raw("GET", "/api/another-namespace/q").await;
    unchecked.expect(503);
    let bulk = queue.publish_bulk(&["1".to_owned()]).send().await;
    bulk.unwrap().expect(500);
    tokio::task::block_in_place(|| bring_back(&mut stack));
    let works = async || match queue.publish("y").send().await.unwrap() {
        answer if answer.status == 201 => Ok(()),
        answer => Err(answer),
    };
    eventually("publishing works again", RECOVERY_MAX, works).await;
    assert_eq!(queue.consume().job().await.unwrap().id, id);
    stack.finish().await;
}

async fn away(answer_max: Duration, take_away: impl Fn(&mut Stack)) {
    let _turn = turn().await;
    let mut stack = Stack::builder()
        .redis(RedisOptions::new().always_synced())
        .lease("500ms")
        .start()
        .await;
    let queue = stack.queue("q").await;
    let mut traffic = Traffic::start(std::slice::from_ref(&queue), PUBLISHERS, CONSUMERS);

    for round in 0..2 {
        traffic
            .until("jobs pass", 200 * (round + 1), |seen| seen.acked.len())
            .await;
        let errors = traffic.seen().errors;
        tokio::task::block_in_place(|| take_away(&mut stack));
        traffic
            .until("requests fail", errors + 30, |seen| seen.errors)
            .await;
        traffic.until_silent_for(OUTAGE_MIN).await;
        tokio::task::block_in_place(|| bring_back(&mut stack));
        let back_at = Instant::now();
        let took = traffic.until_published_after(back_at, RECOVERY_MAX).await;
        figure(&format!(
            "redis away: first success {took:?} after it was back"
        ));
    }
    traffic.until_all_acked(|seen| seen.published.clone()).await;
    traffic.end().await;
    traffic.show("redis away");
    let slowest = traffic.seen().slowest;
    assert!(slowest <= answer_max, "an answer took {slowest:?}");
    assert_eq!(queue.dead_size().await, 0);
    assert!(stack.api(0).is_running() && stack.pump(0).is_running());
    stack.finish().await;
}

fn bring_back(stack: &mut Stack) {
    // Resuming a server that was stopped fails, and it need not be resumed.
    let _ = stack.redis.resume();
    stack.redis.start_again().unwrap();
}
