//! Lanes that are added and removed while the queue is in use.

use std::collections::HashSet;

use bytes::Bytes;
use tidegate_core::NewJob;
use tidegate_testkit::{ReceivedJob, Stack, connect_to_redis, eventually};

use crate::fixture::{PATIENCE, bucket, key, lanes, store, take, until_used};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn consumers_waiting_at_any_api_get_the_jobs_of_new_lanes() {
    let stack = Stack::builder().apis(2).start().await;
    let queue = stack.queue("orders").await;
    let first = bucket(&queue.publish("x").id().await);
    queue.destroy().await;
    let waiting: Vec<_> = (0..12)
        .map(|number| {
            queue
                .on_api(stack.api(number % 2))
                .with_separate_connections()
        })
        .map(|queue| tokio::spawn(queue.consume().timeout_s(60).ttr_s(60).job()))
        .collect();
    stack.api(0).wait_for_waiting_consumers(6).await;
    stack.api(1).wait_for_waiting_consumers(6).await;
    queue.set_lanes(stack.api(0), 8).await;
    let mut published = HashSet::new();
    for _ in 0..12 {
        published.insert(queue.publish("x").id().await);
    }
    assert!(published.iter().any(|id| bucket(id) != first));
    let mut delivered = HashSet::new();
    for consumer in waiting {
        delivered.insert(consumer.await.unwrap().unwrap().id);
    }
    assert_eq!(delivered, published);
    for id in &published {
        queue.ack(id).await;
    }
    stack.finish().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn closed_lanes_are_served_until_they_are_empty() {
    let stack = Stack::builder().apis(2).start().await;
    let (api, queue) = (stack.api(0), stack.queue("orders").await);
    queue.set_lanes(api, 4).await;
    let store = store(&stack).await;
    let key = key(&queue);
    let job = |delay_ms| NewJob {
        body: Bytes::from_static(b"x"),
        attributes: vec![],
        delay_ms,
        ttl_ms: 0,
        tries: 1,
        mark: false,
        native: None,
    };
    let publish = async |lane, delay_ms| {
        let ids = store.publish(key.lane(lane), &[job(delay_ms)], None).await;
        ids.unwrap()[0].to_string()
    };
    let delayed = publish(2, 3_600_000).await;
    let ready = publish(3, 0).await;
    assert_eq!(queue.set_lanes(api, 1).await, 4);
    // New jobs do not go to the closed lanes. Jobs that are in them can be peeked, consumed and acked.
    for _ in 0..10 {
        let id = queue.publish("x").id().await;
        assert_eq!(bucket(&id), store.bucket_of(&key));
        queue.ack(&id).await;
    }
    let other = queue.on_api(stack.api(1));
    let taken = other
        .consume()
        .timeout_s(10)
        .ttr_s(600)
        .job()
        .await
        .unwrap();
    assert_eq!(taken.id, ready);
    other.ack(&ready).await;
    until_used(api, &queue, 3).await;
    // A delayed job keeps its lane in use, and the lanes before it.
    assert_eq!(other.peek_job(&delayed).await.status, 200);
    assert_eq!(lanes(stack.api(1), &queue).await, (1, 3));
    other.ack(&delayed).await;
    until_used(stack.api(1), &queue, 1).await;
    // A larger number of lanes works as before.
    assert_eq!(queue.set_lanes(api, 2).await, 2);
    let ids: HashSet<String> = {
        let mut ids = HashSet::new();
        for _ in 0..40 {
            ids.insert(queue.publish("x").id().await);
        }
        ids
    };
    let taken = take(&other, 40).await.concat();
    let taken: HashSet<String> = taken.into_iter().map(|job| job.id).collect();
    assert_eq!(taken, ids);
    for id in &taken {
        queue.ack(id).await;
    }
    stack.finish().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_api_that_starts_later_knows_the_lanes_from_its_first_request() {
    /// A consume waits for further lanes for a quarter of a second. If the machine stalls for longer, it returns fewer
    /// jobs, which shows nothing.
    const ATTEMPTS: usize = 3;
    let stack = Stack::builder().start().await;
    let mut taken = Vec::new();
    while taken.len() < ATTEMPTS && !taken.contains(&20) {
        taken.push(taken_by_an_api_that_starts(&stack).await);
    }
    assert!(taken.contains(&20), "{taken:?} of 20 jobs");
    stack.finish().await;
}

/// Restarts the API while a new queue with 8 lanes has 20 jobs. Returns how many of them one consume takes.
async fn taken_by_an_api_that_starts(stack: &Stack) -> usize {
    let queue = stack.queue("orders").await;
    queue.set_lanes(stack.api(0), 8).await;
    for _ in 0..20 {
        queue.publish("x").id().await;
    }
    stack.api(0).kill();
    stack.api(0).restart().await;
    assert_eq!(queue.size().await, 20);
    let answer = queue.consume().count(100).send().await.unwrap();
    match answer.status {
        // Some of the lanes did not answer in time, and the others have no jobs.
        500 => 0,
        _ => ReceivedJob::parse_all(&answer).len(),
    }
}

/// A connection to the Redis of a stack.
async fn connection(stack: &Stack) -> redis::aio::MultiplexedConnection {
    let client = redis::Client::open(stack.redis.url()).unwrap();
    connect_to_redis(&client).await.unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn lanes_are_served_again_after_their_row_is_lost() {
    let stack = Stack::builder().apis(2).start().await;
    let queue = stack.queue("orders").await;
    queue.set_lanes(stack.api(0), 8).await;
    for _ in 0..20 {
        queue.publish("x").id().await;
    }
    let mut forget = redis::cmd("DEL");
    let forget = forget.arg("tg:lanes");
    forget
        .exec_async(&mut connection(&stack).await)
        .await
        .unwrap();
    until_used(stack.api(0), &queue, 8).await;
    assert_eq!(lanes(stack.api(1), &queue).await, (1, 8));
    for _ in 0..20 {
        let consume = queue.on_api(stack.api(1)).consume();
        let job = consume.timeout_s(10).ttr_s(600).job().await.unwrap();
        queue.ack(&job.id).await;
    }
    until_used(stack.api(1), &queue, 1).await;
    stack.finish().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn lanes_closed_under_another_epoch_take_jobs_again() {
    let stack = Stack::builder().start().await;
    let queue = stack.queue("orders").await;
    let (store, key) = (store(&stack).await, key(&queue));
    let first = store.bucket_of(&key);
    // Closed by a process that uses an older row, and by a row that a failover has lost.
    for later in [-1, 5] {
        queue.set_lanes(stack.api(0), 4).await;
        let row = store.lanes().rows().await.unwrap().row(&key);
        let epoch = row.epoch.checked_add_signed(later).unwrap();
        for lane in 1..4 {
            assert!(store.close_lane(key.lane(lane), epoch).await.unwrap());
        }
        let published = async || {
            let id = queue.publish("x").id().await;
            queue.ack(&id).await;
            if bucket(&id) == first {
                Err(id)
            } else {
                Ok(())
            }
        };
        eventually("a job is in another lane", PATIENCE, published).await;
    }
    stack.finish().await;
}
