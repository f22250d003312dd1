//! Queues that are paused: until they are resumed, or until an instant.

use std::time::{Duration, Instant};

use tidegate_testkit::{QueueClient, Stack, eventually, print_figure};
use tokio::time::sleep;

use crate::fixture::{EFFECTIVE_WITHIN, PATIENCE, admin, consumer, read_now};

/// The clock of Redis, in ms.
fn now_ms(stack: &Stack) -> u64 {
    let client = redis::Client::open(stack.redis.url()).unwrap();
    let time = redis::cmd("TIME").query(&mut client.get_connection().unwrap());
    let (seconds, micros): (u64, u64) = time.unwrap();
    seconds * 1000 + micros / 1000
}

async fn size_is(queue: &QueueClient, jobs: u64) {
    eventually("the number of ready jobs", PATIENCE, async || {
        match queue.size().await {
            size if size == jobs => Ok(()),
            size => Err(size),
        }
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn consumers_of_a_paused_queue_wait_and_are_woken_when_it_is_resumed() {
    // Without polls: they could hide a missing wake-up.
    let stack = Stack::builder()
        .apis(2)
        .pumps(0)
        .api_config("[waiters]\npoll_interval = \"60s\"");
    let stack = stack.start().await;
    let (api, other) = (stack.api(0), stack.api(1));
    let queue = stack.queue("q").await;
    let free = queue.sibling("free");
    queue.patch_policy(api, r#"{"paused":true}"#).await;
    read_now(other).await;
    let here = consumer(&queue, 60);
    let there = consumer(&queue.on_api(other), 60);
    api.wait_for_waiting_consumers(1).await;
    other.wait_for_waiting_consumers(1).await;
    for body in ["a", "b"] {
        queue.publish(body).id().await;
    }
    // Doorbells deliver nothing, nor does a consumer that does not wait. Another queue is served.
    for of_api in [&queue, &queue.on_api(other)] {
        assert!(of_api.consume().job().await.is_none());
        assert!(of_api.consume().timeout_s(1).job().await.is_none());
    }
    free.publish("free").id().await;
    assert_eq!(free.consume().job().await.unwrap().text(), "free");
    assert_eq!(queue.size().await, 2);
    assert!(!here.is_finished() && !there.is_finished());
    // A consumer of several queues gets jobs of the others.
    free.publish("next").id().await;
    let several = queue
        .consume_from(&["q", "free"])
        .timeout_s(30)
        .job()
        .await
        .unwrap();
    assert_eq!(several.text(), "next");
    let resumed_at = Instant::now();
    queue.patch_policy(api, r#"{"paused":false}"#).await;
    let mut bodies = Vec::new();
    for (name, waiting) in [("here", here), ("on the other API", there)] {
        let (body, at) = waiting.await.unwrap().unwrap();
        let took = at - resumed_at;
        print_figure(&format!("from resume to delivery {name}: {took:?}"));
        assert!(took < EFFECTIVE_WITHIN, "{name}: {took:?}");
        bodies.push(body);
    }
    bodies.sort();
    assert_eq!(bodies, ["a", "b"]);
    stack.finish().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_pause_ends_at_its_instant_and_not_before() {
    let stack = Stack::builder()
        .apis(2)
        .pumps(0)
        .api_config("[waiters]\npoll_interval = \"60s\"");
    let stack = stack.start().await;
    let queue = stack.queue("q").await;
    let end_ms = now_ms(&stack) + 3000;
    let set = queue
        .patch_policy(stack.api(0), &format!(r#"{{"paused_until":{end_ms}}}"#))
        .await;
    assert_eq!(set.json()["paused"], true);
    read_now(stack.api(1)).await;
    for body in ["a", "b"] {
        queue.publish(body).id().await;
    }
    let waiting = [
        consumer(&queue, 60),
        consumer(&queue.on_api(stack.api(1)), 60),
    ];
    assert!(queue.consume().job().await.is_none());
    for consumer in waiting {
        consumer.await.unwrap().unwrap();
        let late_ms = now_ms(&stack).checked_sub(end_ms);
        let late_ms = late_ms.expect("a job was delivered during the pause");
        print_figure(&format!(
            "delivered {late_ms} ms after the end of the pause"
        ));
        assert!(u128::from(late_ms) < EFFECTIVE_WITHIN.as_millis());
    }
    // A pause that has ended pauses nothing, also in an API that has just been started.
    stack.api(1).restart().await;
    queue.publish("c").id().await;
    let there = queue.on_api(stack.api(1));
    assert_eq!(there.consume().job().await.unwrap().text(), "c");
    stack.finish().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn timers_and_acks_of_a_paused_queue_continue() {
    let stack = Stack::builder().start().await;
    let (api, queue) = (stack.api(0), stack.queue("q").await);
    queue.publish("leased").id().await;
    let leased = queue.consume().ttr_s(1).job().await.unwrap();
    let acked = queue.publish("acked").id().await;
    queue.publish("delayed").delay_s(1).id().await;
    queue.patch_policy(api, r#"{"paused":true}"#).await;
    queue.ack(&acked).await;
    // The delay ends; the lease expires, and the job has no tries left.
    size_is(&queue, 1).await;
    eventually("a dead job", PATIENCE, async || {
        match queue.dead_size().await {
            1 => Ok(()),
            other => Err(other),
        }
    })
    .await;
    assert_eq!(queue.peek().await.expect(200).json()["queue"], "q");
    assert!(queue.consume().job().await.is_none());
    queue.respawn(1, 0).await;
    size_is(&queue, 2).await;
    queue.ack(&leased.id).await;
    queue.patch_policy(api, r#"{"paused":false}"#).await;
    assert_eq!(queue.consume().job().await.unwrap().text(), "delayed");
    stack.finish().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_new_api_delivers_no_job_of_a_paused_queue() {
    let stack = Stack::builder().pumps(0).start().await;
    let queue = stack.queue("q").await;
    queue.patch_policy(stack.api(0), r#"{"paused":true}"#).await;
    queue.publish("x").id().await;
    for _ in 0..3 {
        stack.api(0).restart().await;
        let queue = queue.on_api(stack.api(0));
        assert!(queue.consume().job().await.is_none());
    }
    stack.finish().await;
}

/// A consumer that waits at another API, and a change that this API learns only by reading the table.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_pause_is_in_effect_everywhere_within_a_second_or_so() {
    let stack = Stack::builder().apis(2).pumps(0).start().await;
    let queue = stack.queue("q").await;
    let there = queue.on_api(stack.api(1));
    queue.patch_policy(stack.api(0), r#"{"paused":true}"#).await;
    let paused_at = Instant::now();
    let mut took = Duration::ZERO;
    // A job that is published now is delivered as long as the other API does not know of the pause.
    for number in 0..200 {
        queue.publish(number.to_string()).id().await;
        match there.consume().job().await {
            Some(job) => there.ack(&job.id).await,
            None => {
                took = paused_at.elapsed();
                break;
            }
        }
        sleep(Duration::from_millis(20)).await;
    }
    print_figure(&format!(
        "a pause was in effect on another API after {took:?}"
    ));
    assert!(took > Duration::ZERO && took < EFFECTIVE_WITHIN, "{took:?}");
    assert_eq!(
        admin(stack.api(1), "GET", "/v1/*/policies").await.status,
        200
    );
    assert_eq!(queue.size().await, 1);
    stack.finish().await;
}
