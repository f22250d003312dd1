//! The verbs on a pool that moves. Jobs that were published before the move are in the old deployment, later ones in
//! the new one.

use std::time::Duration;
use tidegate_core::JobsByState;

use serde_json::json;
use tidegate_testkit::consistency;
use tidegate_testkit::queue::ConsumeBuilder;
use tidegate_testkit::{NativeClient, QueueClient, RawHttp, ReceivedJob, Stack, eventually};

use crate::DEFAULT_MOVES;

/// How often a case is repeated that depends on answers of a deployment within a quarter of a second: a consume waits
/// no longer before it looks into the next one, and a peek less. So a case in which the machine stalls shows nothing.
const ATTEMPTS: usize = 3;

/// Repeats a case until it succeeds.
async fn repeat(case: impl AsyncFn() -> Result<(), String>) {
    let mut seen = Vec::new();
    while seen.len() < ATTEMPTS {
        match Box::pin(case()).await {
            Ok(()) => return,
            Err(error) => seen.push(error),
        }
    }
    panic!("{seen:?}");
}

/// Sends a consume, and compares the bodies of the jobs.
///
/// # Errors
/// Other jobs came, or a deployment did not answer in time.
async fn expect_jobs(
    consume: ConsumeBuilder,
    expected: &[&str],
) -> Result<Vec<ReceivedJob>, String> {
    let answer = consume.send().await.unwrap();
    if answer.status != 200 {
        return Err(answer.to_string());
    }
    let jobs = ReceivedJob::parse_all(&answer);
    match texts(&jobs) {
        found if found == expected => Ok(jobs),
        found => Err(format!("{found:?} instead of {expected:?}")),
    }
}

/// Peeks at the next job, and compares its body.
///
/// # Errors
/// It is another one: a peek also looks into the next deployment if one does not answer promptly.
async fn expect_head(queue: &QueueClient, base64: &str, text: &str) -> Result<(), String> {
    let head = queue.peek().await.expect(200).json();
    match head["data"] == base64 {
        true => Ok(()),
        false => Err(format!("{head} instead of {text:?}")),
    }
}

/// A stack with pools default and new, and a queue of default.
async fn before_the_move() -> (Stack, QueueClient) {
    let stack = Stack::builder().pool("new").start().await;
    let queue = stack.queue("orders").await;
    (stack, queue)
}

pub(crate) async fn begin_the_move(stack: &Stack) {
    // Without polls only doorbells wake consumers.
    stack.change_api_config(&format!("waiters.poll_interval = \"10m\"\n{DEFAULT_MOVES}"));
    stack.api(0).stop(Duration::from_secs(20)).await;
    stack.api(0).restart().await;
}

fn texts(jobs: &[ReceivedJob]) -> Vec<String> {
    jobs.iter().map(ReceivedJob::text).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn new_jobs_go_to_the_new_deployment_and_old_ones_come_first() {
    repeat(old_jobs_come_first).await;
}

async fn old_jobs_come_first() -> Result<(), String> {
    let (stack, queue) = before_the_move().await;
    queue.publish("old 1").id().await;
    queue.publish("old 2").id().await;
    begin_the_move(&stack).await;
    queue.publish("new 1").id().await;
    queue.publish_bulk(&["2".to_owned()]).ids().await;
    let there = consistency::totals(&stack.redis_of("new").url()).await;
    assert_eq!(there.ready, 2);
    assert_eq!(stack.totals().await.ready, 2);

    assert_eq!(queue.size().await, 4);
    expect_head(&queue, "b2xkIDE=", "old 1").await?;
    let consume = queue.consume().count(3);
    let jobs = expect_jobs(consume, &["old 1", "old 2", "new 1"]).await?;
    expect_head(&queue, "Mg==", "2").await?;
    for job in &jobs {
        assert_eq!(queue.peek_job(&job.id).await.status, 200);
        queue.ack(&job.id).await;
        assert_eq!(queue.peek_job(&job.id).await.status, 404);
    }
    assert_eq!(stack.totals().await, JobsByState::default());
    queue.destroy().await;
    assert_eq!(queue.size().await, 0);
    stack.finish().await;
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_order_of_queues_takes_precedence_over_that_of_deployments() {
    repeat(jobs_come_in_the_order_of_queues).await;
}

async fn jobs_come_in_the_order_of_queues() -> Result<(), String> {
    let (stack, queue) = before_the_move().await;
    let second = queue.sibling("second");
    second.publish("old of second").id().await;
    begin_the_move(&stack).await;
    queue.publish("new of first").id().await;
    let consume = queue.consume_from(&["orders", "second"]);
    expect_jobs(consume.clone(), &["new of first"]).await?;
    expect_jobs(consume, &["old of second"]).await?;
    stack.finish().await;
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn waiting_consumers_get_jobs_of_both_deployments() {
    let (stack, queue) = before_the_move().await;
    queue.publish("old").delay_s(4).tries(1).id().await;
    begin_the_move(&stack).await;
    let waiting: Vec<_> = (0..2)
        .map(|_| {
            let queue = queue.with_separate_connections();
            tokio::spawn(async move { queue.consume().timeout_s(20).job().await })
        })
        .collect();
    stack.api(0).wait_for_waiting_consumers(2).await;
    queue.publish("new").id().await;
    let mut jobs = Vec::new();
    for job in waiting {
        jobs.push(job.await.unwrap().unwrap().text());
    }
    jobs.sort();
    assert_eq!(jobs, ["new", "old"]);
    stack.finish().await;
}

/// One API was restarted with the setting, and another one was not: it does not see jobs in the new Redis, and must not
/// answer that they are gone.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_api_that_does_not_know_the_move_refuses_to_end_jobs_that_it_does_not_see() {
    let stack = Stack::builder().apis(2).pool("new").start().await;
    let queue = stack.queue("orders").await;
    let unaware = queue.on_api(stack.api(1));
    begin_the_move(&stack).await;
    unaware.ack("01ARZ3NDEKTSV4RRFFQ69G5FAV").await;
    queue.publish("new").id().await;
    let job = queue.consume().ttr_s(60).job().await.unwrap();
    let refused = unaware.try_ack(&job.id).await.unwrap();
    assert_eq!(refused.status, 503, "{refused}");
    assert_eq!(refused.header("retry-after"), Some("1"));
    assert_eq!(queue.peek_job(&job.id).await.status, 200);
    let native = NativeClient::with_key(stack.api(1), queue.namespace(), queue.token());
    let reserved = NativeClient::with_key(stack.api(0), queue.namespace(), queue.token());
    reserved.publish("orders", "", "new").await.expect(201);
    let lease = reserved.reserve("orders", 1).await[0]["lease"].clone();
    for verb in ["ack", "touch", "release", "fail"] {
        let leases = match verb {
            "fail" => json!([{"lease": lease, "error": "no"}]),
            _ => json!([lease]),
        };
        let path = format!("/{verb}");
        let answer = native.call("POST", &path, &json!({"leases": leases})).await;
        assert_eq!(answer.status, 503, "{verb}: {answer}");
        assert!(answer.header("retry-after").is_some(), "{verb}: {answer}");
    }
    queue.ack(&job.id).await;
    assert_eq!(queue.peek_job(&job.id).await.status, 404);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_job_of_the_old_deployment_can_be_replaced() {
    let (stack, queue) = before_the_move().await;
    let old = queue.publish("old").id().await;
    begin_the_move(&stack).await;
    let refused = queue.republish(&old, "x").tries(0).send().await.unwrap();
    assert_eq!(refused.status, 400);
    assert_eq!(queue.peek_job(&old).await.status, 200, "still there");
    let new = queue.republish(&old, "new").id().await;
    assert_eq!(queue.peek_job(&old).await.status, 404);
    let newer = queue.republish(&new, "newer").id().await;
    assert_eq!(queue.peek_job(&new).await.status, 404);
    let job = queue.consume().job().await.unwrap();
    assert_eq!((job.text(), job.id), ("newer".to_owned(), newer));
    assert_eq!(queue.consume().job().await.map(|job| job.text()), None);
    stack.finish().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_dead_letters_of_both_deployments_are_shown_as_one() {
    let (stack, queue) = before_the_move().await;
    let mut old = Vec::new();
    for number in 0..3 {
        old.push(queue.publish(format!("old {number}")).tries(1).id().await);
    }
    until_dead(&queue, 3).await;
    begin_the_move(&stack).await;
    let mut new = Vec::new();
    for number in 0..3 {
        new.push(queue.publish(format!("new {number}")).tries(1).id().await);
    }
    until_dead(&queue, 6).await;

    until_head(&queue, &old[0], 6).await;
    queue.purge_dead(2).await;
    assert_eq!(queue.respawn(2, 0).await, 2);
    let mut jobs = texts(&take(&queue, 2).await);
    jobs.sort();
    assert_eq!(jobs, ["new 0", "old 2"]);
    until_head(&queue, &new[1], 2).await;
    assert_eq!(queue.respawn(10, 0).await, 2);
    assert_eq!(queue.dead_size().await, 0);
    stack.finish().await;
}

/// Takes this many jobs, with several consumes if the machine stalls during one.
async fn take(queue: &QueueClient, count: usize) -> Vec<ReceivedJob> {
    let mut taken = Vec::new();
    while taken.len() < count {
        let missing = (count - taken.len()) as u64;
        let consume = queue.consume().count(missing).ttr_s(600).timeout_s(20);
        let jobs = consume.jobs().await;
        assert!(!jobs.is_empty(), "{missing} of {count} jobs did not come");
        taken.extend(jobs);
    }
    taken
}

/// Waits until the dead letter, which has this size, shows this job. If its deployment takes more than 25 ms to answer,
/// the oldest job of the other one is shown.
async fn until_head(queue: &QueueClient, head: &str, jobs: u64) {
    eventually("the oldest dead job", Duration::from_secs(20), async || {
        let shown = queue.dead_letter().await;
        assert_eq!(shown["deadletter_size"], jobs);
        match shown["deadletter_head"] == head {
            true => Ok(()),
            false => Err(shown),
        }
    })
    .await;
}

/// Takes jobs, with leases that expire at once, until this many are dead. A consume takes fewer jobs than there are if
/// a deployment does not answer in time.
async fn until_dead(queue: &QueueClient, jobs: u64) {
    let what = format!("{jobs} jobs are dead");
    eventually(&what, Duration::from_secs(20), async || {
        let consume = queue.consume().ttr_s(0).count(3).send();
        consume.await.unwrap();
        match queue.dead_size().await {
            dead if dead == jobs => Ok(()),
            dead => Err(dead),
        }
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn events_are_counted_in_the_deployment_where_they_occur() {
    repeat(events_are_counted_where_they_occur).await;
}

async fn events_are_counted_where_they_occur() -> Result<(), String> {
    let (stack, queue) = before_the_move().await;
    for text in ["old 1", "old 2"] {
        queue.publish(text).id().await;
    }
    begin_the_move(&stack).await;
    for text in ["new 1", "new 2", "new 3"] {
        queue.publish(text).id().await;
    }
    queue.sibling("fresh").publish("new").id().await;
    let taken = expect_jobs(queue.consume().ttr_s(600), &["old 1"]).await?;
    queue.ack(&taken[0].id).await;
    let (api, pump) = (stack.api(0), stack.pump(0));
    // The pools have as many buckets each.
    pump.wait_for_buckets(512).await;
    for (daemon, name, old, new) in [
        (api, "infra_lmstfy_redis_publish_queue_jobs", 0.0, 3.0),
        (api, "infra_lmstfy_redis_consume_queue_jobs", 1.0, 0.0),
        (api, "tidegate_jobs_acked_total", 1.0, 0.0),
        (pump, "infra_lmstfy_redis_queue_sizes", 1.0, 3.0),
    ] {
        let of = async |pool: &str| {
            let (namespace, queue) = (queue.namespace(), queue.name());
            let labels = format!(r#"pool="{pool}",namespace="{namespace}",queue="{queue}""#);
            daemon.metric_with_label(name, &labels).await
        };
        assert_eq!((of("default").await, of("new").await), (old, new), "{name}");
    }
    let mut http = RawHttp::connect(api.admin()).await;
    http.request("GET", "/info", &[], b"").await;
    let info = http.answer().await.unwrap().expect(200).json();
    let queues = serde_json::json!(["fresh", queue.name()]);
    assert_eq!(info[queue.namespace()], queues, "{info}");
    stack.finish().await;
    Ok(())
}
