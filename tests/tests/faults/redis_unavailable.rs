//! Redis becomes unavailable under load, and recovers.

use std::time::{Duration, Instant};

use tidegate_testkit::{BackgroundTraffic, FarApi, RedisOptions, Stack, eventually, print_figure};
use tokio::task::JoinSet;
use tokio::time::sleep;

const PUBLISHERS: usize = 4;
const CONSUMERS: usize = 8;
/// The longest time to an answer while no process listens. Consumers wait for 1 s of it.
const ANSWER_MAX: Duration = Duration::from_secs(5);
/// The same while Redis accepts calls and does not answer: a request may have to wait for the end of an earlier call,
/// and then for its own, each up to the command timeout of 3 s.
const SILENT_ANSWER_MAX: Duration = Duration::from_millis(7500);
/// The shortest time that Redis is unavailable.
const OUTAGE_MIN: Duration = Duration::from_secs(3);
const RECOVERY_MAX: Duration = Duration::from_secs(10);

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn acknowledged_jobs_survive_a_crash_of_redis() {
    away(ANSWER_MAX, |stack| stack.redis.kill()).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn acknowledged_jobs_survive_a_restart_of_redis() {
    away(ANSWER_MAX, |stack| assert!(stack.redis.stop())).await;
}

/// Connections stay open and nothing is answered.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn requests_end_in_time_while_redis_is_paused() {
    let pause = |stack: &mut Stack| stack.redis.pause().unwrap();
    away(SILENT_ANSWER_MAX, pause).await;
}

/// lmstfy hides the failure of a batch behind "no job available", and answers a failed peek at a job without a body.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_route_fails_while_redis_is_down_and_works_again() {
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

/// The connection of calls may reach the new process before the API notices that it is another process. Calls that are
/// in flight then are answered.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn calls_to_a_restarted_redis_are_answered() {
    const ROUNDS: u32 = 10;
    /// Redis is back at another moment between two checks of the API in each round.
    const STEP: Duration = Duration::from_millis(70);
    /// Longer than a reply of a former server is waited for.
    const DELAY: Duration = Duration::from_millis(150);
    let mut stack = Stack::builder().pumps(0).start().await;
    let far = FarApi::start(&stack, "3s").await;
    let queue = stack.queue("q").await.on_api(&far.api);
    queue.publish("known").id().await;
    far.slow_down(DELAY);
    for round in 0..ROUNDS {
        stack.redis.kill();
        sleep(Duration::from_millis(500) + STEP * round).await;
        tokio::task::block_in_place(|| bring_back(&mut stack));
        let works = async || match queue.publish("first").send().await.unwrap() {
            answer if answer.status == 201 => Ok(()),
            answer => Err(answer),
        };
        eventually("publishing works again", RECOVERY_MAX, works).await;
        let mut later = JoinSet::new();
        for _ in 0..20 {
            later.spawn(queue.publish("later").send());
            sleep(DELAY / 4).await;
        }
        while let Some(answer) = later.join_next().await {
            answer.unwrap().unwrap().expect(201);
        }
    }
    let log = far.api.log();
    assert_eq!(log.matches("redis was restarted").count(), ROUNDS as usize);
    assert!(!log.contains("the master is another server now"));
    stack.finish().await;
}

async fn away(answer_max: Duration, take_away: impl Fn(&mut Stack)) {
    let mut stack = Stack::builder()
        .redis(RedisOptions::new().always_synced())
        .lease("500ms")
        .start()
        .await;
    let queue = stack.queue("q").await;
    let mut traffic = BackgroundTraffic::start(std::slice::from_ref(&queue), PUBLISHERS, CONSUMERS);

    for round in 0..2 {
        traffic
            .wait_until("jobs pass", 200 * (round + 1), |seen| seen.acked.len())
            .await;
        let errors = traffic.results().errors;
        tokio::task::block_in_place(|| take_away(&mut stack));
        traffic
            .wait_until("requests fail", errors + 30, |seen| seen.errors)
            .await;
        traffic.wait_until_failing_for(OUTAGE_MIN).await;
        tokio::task::block_in_place(|| bring_back(&mut stack));
        let back_at = Instant::now();
        let took = traffic.wait_for_publish_after(back_at, RECOVERY_MAX).await;
        print_figure(&format!(
            "redis unavailable: first success {took:?} after it was back"
        ));
    }
    traffic
        .wait_until_all_acked(|seen| seen.published.clone())
        .await;
    traffic.end().await;
    traffic.print("redis unavailable");
    let slowest = traffic.results().slowest;
    assert!(slowest <= answer_max, "an answer took {slowest:?}");
    assert_eq!(queue.dead_size().await, 0);
    assert!(stack.api(0).is_running() && stack.pump(0).is_running());
    stack.finish().await;
}

fn bring_back(stack: &mut Stack) {
    // Resuming a server that was stopped fails, and it need not be resumed.
    let _ = stack.redis.resume();
    stack.redis.restart().unwrap();
}
