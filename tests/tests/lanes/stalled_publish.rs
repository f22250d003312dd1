//! Publishes that are delayed between the API and Redis while their lanes are closed and taken out of use.

use std::collections::HashSet;
use tidegate_core::JobsByState;

use tidegate_testkit::fault_proxy::NetworkConditions;
use tidegate_testkit::{FarApi, QueueClient, Stack};

use crate::fixture::{bucket, key, lanes, store, until_used};

/// Consumes until no job comes within 3 s.
async fn consume_all(queue: &QueueClient) -> HashSet<String> {
    let mut consumed = HashSet::new();
    while let Some(job) = queue.consume().timeout_s(3).ttr_s(60).job().await {
        queue.ack(&job.id).await;
        consumed.insert(job.id);
    }
    consumed
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_job_of_a_stalled_connection_is_stranded_in_a_closed_lane() {
    let stack = Stack::builder().start().await;
    let far = FarApi::start(&stack, "3s").await;
    let queue = stack.queue("orders").await;
    queue.set_lanes(&far.api, 8).await;
    far.stall(&queue).await;
    let publishes: Vec<_> = (0..20)
        .map(|_| queue.on_api(&far.api).with_separate_connections())
        .map(|queue| tokio::spawn(queue.publish("late").send()))
        .collect();
    for publish in publishes {
        let answer = publish.await.unwrap().unwrap();
        assert_eq!(answer.status, 500, "its call timed out");
    }
    queue.set_lanes(stack.api(0), 1).await;
    until_used(stack.api(0), &queue, 1).await;
    far.way.set(NetworkConditions::default());
    // The API uses the old table of lanes until it reads it again.
    let next = queue.on_api(&far.api).publish("next").id().await;
    assert!(consume_all(&queue).await.contains(&next));
    assert_eq!(
        stack.totals().await,
        JobsByState::default(),
        "jobs that no consumer can get"
    );
    drop(far);
    stack.finish().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_publish_that_finds_its_lane_closed_goes_to_the_first_lane() {
    let stack = Stack::builder().start().await;
    let far = FarApi::start(&stack, "2m").await;
    let queue = stack.queue("orders").await;
    queue.set_lanes(&far.api, 64).await;
    let replaced = queue.publish("replaced").id().await;
    far.stall(&queue).await;
    // One in 64 publishes goes to the first lane in any case.
    let small = queue
        .on_api(&far.api)
        .with_separate_connections()
        .publish("small");
    let large = queue
        .on_api(&far.api)
        .with_separate_connections()
        .publish(vec![b'x'; 40_000]);
    let republished = queue.on_api(&far.api).with_separate_connections();
    let republished = republished.republish(&replaced, "republished");
    let late = [small, large, republished].map(|publish| tokio::spawn(publish.id()));
    queue.set_lanes(stack.api(0), 1).await;
    let taken = queue.consume().timeout_s(10).ttr_s(60).job().await.unwrap();
    assert_eq!(taken.id, replaced);
    queue.ack(&replaced).await;
    until_used(stack.api(0), &queue, 1).await;
    assert!(late.iter().all(|late| !late.is_finished()));
    far.way.set(NetworkConditions::default());
    let first = store(&stack).await.bucket_of(&key(&queue));
    let mut stored = HashSet::new();
    for late in late {
        let id = late.await.unwrap();
        assert_eq!(bucket(&id), first);
        stored.insert(id);
    }
    assert_eq!(consume_all(&queue).await, stored);
    assert_eq!(lanes(stack.api(0), &queue).await, (1, 1));
    drop(far);
    stack.finish().await;
}
