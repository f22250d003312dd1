//! Messages from Redis are lost: that costs time, never a job.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use tidegate_testkit::{RedisControl, Stack, figure};

use crate::turn;

const ROUNDS: usize = 8;
const POLL_INTERVAL: Duration = Duration::from_secs(1);
const SLACK: Duration = Duration::from_millis(1500);

async fn stack() -> Stack {
    Stack::builder()
        .api_config("waiters.poll_interval = \"1s\"")
        .pump_config("pump.sleep_max = \"1s\"")
        .start()
        .await
}

/// Ends every subscription, again and again.
async fn cut_subscriptions(url: String, stop: Arc<AtomicBool>) -> usize {
    let mut control = RedisControl::of(&url).await;
    let mut cut = 0;
    let mut ticks = tokio::time::interval(Duration::from_millis(5));
    while !stop.load(Ordering::Relaxed) {
        cut += control.end_subscriptions().await;
        ticks.tick().await;
    }
    cut
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_waiting_consumer_gets_its_job_without_doorbells() {
    let _turn = turn().await;
    let stack = stack().await;
    let queue = stack.queue("q").await;
    let stop = Arc::new(AtomicBool::new(false));
    let cutting = tokio::spawn(cut_subscriptions(stack.redis.url(), Arc::clone(&stop)));
    let mut slowest = Duration::ZERO;
    for _ in 0..ROUNDS {
        let waiting = tokio::spawn(queue.apart().consume().timeout_s(20).job());
        stack.api(0).until_waiting(1).await;
        let begin = Instant::now();
        let id = queue.publish("x").id().await;
        assert_eq!(waiting.await.unwrap().unwrap().id, id);
        slowest = slowest.max(begin.elapsed());
        queue.ack(&id).await;
    }
    stop.store(true, Ordering::Relaxed);
    let cut = cutting.await.unwrap();
    figure(&format!(
        "without doorbells ({cut} subscriptions cut): the slowest of {ROUNDS} came after {slowest:?}"
    ));
    assert!(cut > 0, "no subscription was cut");
    assert!(slowest < POLL_INTERVAL + SLACK, "{slowest:?}");
    stack.finish().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_delayed_job_becomes_ready_without_alarms() {
    let _turn = turn().await;
    let stack = stack().await;
    let queue = stack.queue("q").await;
    let stop = Arc::new(AtomicBool::new(false));
    let cutting = tokio::spawn(cut_subscriptions(stack.redis.url(), Arc::clone(&stop)));
    let mut slowest = Duration::ZERO;
    for _ in 0..ROUNDS / 2 {
        let due_at = Instant::now() + Duration::from_secs(1);
        let id = queue.publish("x").delay_s(1).id().await;
        assert_eq!(queue.consume().timeout_s(20).job().await.unwrap().id, id);
        let late = Instant::now().checked_duration_since(due_at);
        slowest = slowest.max(late.expect("never early"));
        queue.ack(&id).await;
    }
    stop.store(true, Ordering::Relaxed);
    cutting.await.unwrap();
    figure(&format!(
        "without alarms and doorbells: the latest of {} was {slowest:?} late",
        ROUNDS / 2
    ));
    assert!(slowest < POLL_INTERVAL * 2 + SLACK, "{slowest:?}");
    stack.finish().await;
}
