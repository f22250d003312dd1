//! Publishes that are held up on their way to Redis while the lanes that they go to are closed and taken out of use.

use std::collections::HashSet;

use tidegate_testkit::fault_proxy::Weather;
use tidegate_testkit::world::Totals;
use tidegate_testkit::{Queue, Stack};

use crate::far_api::FarApi;
use crate::fixture::{bucket, key, lanes, store, until_used};

/// Takes all jobs that are offered within some seconds.
async fn consume_all(queue: &Queue) -> HashSet<String> {
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
        .map(|_| queue.at(&far.api).apart())
        .map(|queue| tokio::spawn(queue.publish("late").send()))
        .collect();
    for publish in publishes {
        let answer = publish.await.unwrap().unwrap();
        assert_eq!(answer.status, 500, "its call timed out");
    }
    queue.set_lanes(stack.api(0), 1).await;
    until_used(stack.api(0), &queue, 1).await;
    far.way.set(Weather::default());
    // It takes the old table for the present one until it has read it again.
    let next = queue.at(&far.api).publish("next").id().await;
    assert!(consume_all(&queue).await.contains(&next));
    assert_eq!(
        stack.totals().await,
        Totals::default(),
        "jobs that no consumer is offered"
    );
    drop(far);
    stack.finish().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_publish_that_finds_its_lane_closed_goes_to_the_first() {
    let stack = Stack::builder().start().await;
    let far = FarApi::start(&stack, "2m").await;
    let queue = stack.queue("orders").await;
    queue.set_lanes(&far.api, 64).await;
    let replaced = queue.publish("replaced").id().await;
    far.stall(&queue).await;
    // One in 64 goes to the first lane anyway.
    let small = queue.at(&far.api).apart().publish("small");
    let large = queue.at(&far.api).apart().publish(vec![b'x'; 40_000]);
    let republished = queue.at(&far.api).apart();
    let republished = republished.republish(&replaced, "republished");
    let late = [small, large, republished].map(|publish| tokio::spawn(publish.id()));
    queue.set_lanes(stack.api(0), 1).await;
    let taken = queue.consume().timeout_s(10).ttr_s(60).job().await.unwrap();
    assert_eq!(taken.id, replaced);
    queue.ack(&replaced).await;
    until_used(stack.api(0), &queue, 1).await;
    assert!(late.iter().all(|late| !late.is_finished()));
    far.way.set(Weather::default());
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
