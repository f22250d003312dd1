//! Daemons that are stopped or killed.

use std::time::{Duration, Instant};

use tidegate_testkit::{QueueClient, RawHttp, Stack, eventually, print_figure};

use crate::jobs::queues;

const WAITERS: usize = 64;
/// Half of the API's own deadline.
const AT_ONCE: Duration = Duration::from_secs(5);
const HANDED_OVER_MAX: Duration = Duration::from_secs(8);
/// The API's own deadline is 10 s.
const STOP_MAX: Duration = Duration::from_secs(10);

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_api_that_stops_answers_its_waiting_consumers_at_once() {
    let stack = Stack::builder().start().await;
    let queue = stack.queue("q").await;
    let mut waiting = Vec::new();
    for _ in 0..WAITERS {
        let mut http = RawHttp::connect(stack.api(0).listen()).await;
        let token = [("X-Token".to_owned(), queue.token().to_owned())];
        http.request("GET", &format!("{}?timeout=60", queue.path()), &token, b"")
            .await;
        waiting.push(http);
    }
    stack.api(0).wait_for_waiting_consumers(WAITERS).await;
    let begin = Instant::now();
    stack.api(0).terminate();
    for http in &mut waiting {
        let answer = http.answer().await.expect("an answer").expect(404);
        assert_eq!(answer.text(), r#"{"msg":"no job available"}"#);
        // Otherwise the client would send its next request over a connection that is no longer read.
        assert_eq!(answer.header("connection"), Some("close"));
    }
    let answered = begin.elapsed();
    let status = stack.api(0).wait(STOP_MAX).await;
    let ended = begin.elapsed();
    print_figure(&format!(
        "api asked to stop: {WAITERS} consumers answered within {answered:?}, ended after {ended:?}"
    ));
    assert_eq!(status.code(), Some(0));
    assert!(answered < AT_ONCE, "{answered:?}");
    assert!(ended < STOP_MAX, "{ended:?}");
    stack.api(0).restart().await;
    queue.with_separate_connections().publish("x").id().await;
    stack.finish().await;
}

/// Each publish that was answered is stored, and no other one is.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_api_that_stops_answers_requests_in_progress() {
    let stack = Stack::builder().apis(2).start().await;
    let queue = stack.queue("q").await;
    let publishers: Vec<_> = (0..8)
        .map(|_| tokio::spawn(publish_until_refused(queue.with_separate_connections())))
        .collect();
    let some = async || match queue.size().await {
        size if size > 100 => Ok(()),
        size => Err(size),
    };
    eventually("jobs are published", Duration::from_secs(10), some).await;
    let status = stack.api(0).stop(STOP_MAX).await;
    assert_eq!(status.code(), Some(0));
    let (mut published, mut unknown) = (0, 0);
    for publisher in publishers {
        let (answered, unanswered) = publisher.await.unwrap();
        published += answered;
        unknown += unanswered;
    }
    let size = queue.on_api(stack.api(1)).size().await;
    print_figure(&format!(
        "api stopped under 8 publishers: {published} answered, {unknown} cut, {size} stored"
    ));
    assert_eq!(
        unknown, 0,
        "requests were cut although there was time to answer them"
    );
    assert_eq!(size, published);
    stack.finish().await;
}

/// Returns how many were published, and how many got no answer although they had been sent.
async fn publish_until_refused(queue: QueueClient) -> (u64, u64) {
    let mut published = 0;
    loop {
        match queue.publish("x").send().await {
            Ok(answer) => {
                answer.expect(201);
                published += 1;
            }
            Err(error) if error.is_connect() => return (published, 0),
            // A connection that was kept alive may be ended between two requests: the job is then
            // not there, which the count shows.
            Err(_) => {}
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_pump_that_stops_hands_its_buckets_over_at_once() {
    // The lease is much longer than the allowed lateness, so no job can wait until it expires.
    let stack = Stack::builder().pumps(2).lease("20s").start().await;
    let both_lead = async || {
        let first = stack.pump(0).metric("tidegate_pump_buckets_held").await;
        let second = stack.pump(1).metric("tidegate_pump_buckets_held").await;
        if first > 50.0 && second > 50.0 && first + second == 256.0 {
            Ok(())
        } else {
            Err(format!("{first} and {second}"))
        }
    };
    eventually("both pumps lead", Duration::from_secs(10), both_lead).await;
    let queues = queues(&stack.queue("first").await, 60);
    let mut consumers = Vec::new();
    for queue in &queues {
        let due_at = Instant::now() + Duration::from_secs(2);
        queue.publish("x").delay_s(2).id().await;
        let consume = queue.consume().timeout_s(30);
        consumers.push(tokio::spawn(async move {
            consume.job().await.expect("the job came");
            Instant::now().checked_duration_since(due_at)
        }));
    }
    let status = stack.pump(0).stop(STOP_MAX).await;
    assert_eq!(status.code(), Some(0));
    let mut latest = Duration::ZERO;
    for consumer in consumers {
        latest = latest.max(consumer.await.unwrap().expect("never early"));
    }
    print_figure(&format!(
        "pump asked to stop: the jobs due after it were at most {latest:?} late"
    ));
    // A pump that stays on the roster keeps its buckets for two thirds of the lease at least, so jobs are 11 s late.
    assert!(latest < HANDED_OVER_MAX, "{latest:?}");
    let leads_all = stack.pump(1).metric("tidegate_pump_buckets_held").await;
    assert_eq!(leads_all, 256.0);
    stack.finish().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_pump_stops_in_time_while_redis_does_not_answer() {
    // Longer than the stop may take: the pump does not wait for calls in flight.
    let patient = "[pool.default]\ncommand_timeout = \"1m\"";
    let stack = Stack::builder().pump_config(patient).start().await;
    stack.pump(0).wait_for_buckets(256).await;
    stack.queue("q").await.publish("x").delay_s(1).id().await;
    stack.redis.pause().unwrap();
    // Time for a call to be in flight.
    tokio::time::sleep(Duration::from_secs(2)).await;
    let asked_at = Instant::now();
    // The stop timeout in the systemd unit.
    let status = stack.pump(0).stop(Duration::from_secs(15)).await;
    print_figure(&format!(
        "pump asked to stop, redis silent: ended after {:?}",
        asked_at.elapsed()
    ));
    assert_eq!(status.code(), Some(0));
    stack.redis.resume().unwrap();
    stack.finish().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_killed_pump_is_replaced_when_its_lease_expires() {
    let stack = Stack::builder().pumps(2).lease("1s").start().await;
    let queues = queues(&stack.queue("first").await, 60);
    let due_at = Instant::now() + Duration::from_secs(1);
    for queue in &queues {
        queue.publish("x").delay_s(1).id().await;
    }
    stack.pump(0).kill();
    let mut latest = Duration::ZERO;
    for queue in &queues {
        let job = queue.consume().timeout_s(15).job().await;
        let late = Instant::now().checked_duration_since(due_at);
        assert!(job.is_some(), "{} got no job", queue.name());
        latest = latest.max(late.expect("never early"));
    }
    print_figure(&format!(
        "pump killed with leases of 1 s: its jobs were at most {latest:?} late"
    ));
    assert!(latest < Duration::from_secs(4), "{latest:?}");
    stack.finish().await;
}
