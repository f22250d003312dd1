//! The verbs on a queue with several lanes.

use std::collections::{BTreeMap, BTreeSet, HashSet};
use tidegate_core::JobsByState;

use tidegate_testkit::{QueueClient, ReceivedJob, Stack, eventually};

use crate::fixture::{PATIENCE, bucket, lanes, take};

async fn eight_lanes() -> (Stack, QueueClient) {
    let stack = Stack::builder()
        .pump_config("[metrics]\nrefresh = \"0s\"")
        .start()
        .await;
    stack.pump(0).wait_for_buckets(256).await;
    let queue = stack.queue("orders").await;
    queue.set_lanes(stack.api(0), 8).await;
    (stack, queue)
}

fn buckets<'a>(ids: impl IntoIterator<Item = &'a String>) -> BTreeSet<u16> {
    ids.into_iter().map(|id| bucket(id)).collect()
}

async fn publish(queue: &QueueClient, jobs: usize) -> Vec<String> {
    let mut ids = Vec::new();
    for job in 0..jobs {
        ids.push(queue.publish(job.to_string()).tries(1).id().await);
    }
    ids
}

fn ids(jobs: &[ReceivedJob]) -> HashSet<String> {
    jobs.iter().map(|job| job.id.clone()).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn jobs_are_spread_over_lanes_counted_as_one_queue_and_found_by_id() {
    let (stack, queue) = eight_lanes().await;
    let mut published = publish(&queue, 150).await;
    let bulk = ["1", "2", "3"].map(str::to_owned);
    let bulk = queue.publish_bulk(&bulk).tries(1).ids().await;
    assert_eq!(buckets(&bulk).len(), 1, "a bulk is in one lane");
    published.extend(bulk);
    assert_eq!(buckets(&published).len(), 8);
    assert_eq!(queue.size().await, 153);
    let of_queue = format!(r#"queue="{}""#, queue.name());
    let ready = stack.pump(0);
    let ready = ready.metric_with_label("infra_lmstfy_redis_queue_sizes", &of_queue);
    assert_eq!(ready.await, 153.0);
    assert_eq!(queue.peek().await.status, 200);
    // One consume takes jobs of several lanes, and those of each lane are in order.
    let taken = take(&queue, 153).await;
    let lanes_of = |jobs: &Vec<ReceivedJob>| buckets(jobs.iter().map(|job| &job.id)).len();
    assert!(taken.iter().map(lanes_of).max() > Some(1), "{taken:?}");
    let taken = taken.concat();
    assert_eq!(ids(&taken), published.iter().cloned().collect());
    let mut by_lane: BTreeMap<u16, Vec<&str>> = BTreeMap::new();
    for job in &taken {
        by_lane.entry(bucket(&job.id)).or_default().push(&job.id);
    }
    for (lane, ids) in by_lane {
        let in_order = published.iter().filter(|id| bucket(id) == lane);
        assert_eq!(ids, in_order.collect::<Vec<_>>(), "bucket {lane}");
    }
    let empty = async || match queue.consume().send().await.unwrap() {
        // The machine stalled: some of the lanes did not answer in time.
        answer if answer.status == 500 => Err(answer),
        answer => Ok(answer.expect(404)),
    };
    eventually("no job is ready", PATIENCE, empty).await;
    for id in &published {
        assert_eq!(queue.peek_job(id).await.status, 200);
        queue.ack(id).await;
        assert_eq!(queue.peek_job(id).await.status, 404);
    }
    assert_eq!(stack.totals().await, JobsByState::default());
    stack.finish().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_dead_letter_and_destroy_reach_all_lanes() {
    let (stack, queue) = eight_lanes().await;
    publish(&queue, 60).await;
    let dead = async || {
        // Repeated, since a consume takes fewer jobs if some of the lanes do not answer in time.
        let consume = queue.consume().count(60).ttr_s(1).send();
        consume.await.unwrap();
        match queue.dead_size().await {
            60 => Ok(()),
            size => Err(size),
        }
    };
    eventually("all are dead", PATIENCE, dead).await;
    assert_eq!(queue.dead_letter().await["deadletter_size"], 60);
    assert_eq!(queue.respawn(40, 600).await, 40);
    assert_eq!((queue.size().await, queue.dead_size().await), (40, 20));
    queue.purge_dead(15).await;
    assert_eq!(queue.dead_size().await, 5);
    queue.destroy().await;
    assert_eq!((queue.size().await, queue.dead_size().await), (0, 5));
    queue.purge_dead(100).await;
    assert_eq!(stack.totals().await, JobsByState::default());
    stack.finish().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_job_is_replaced_in_its_lane_unless_that_is_closed() {
    let (stack, queue) = eight_lanes().await;
    let published = publish(&queue, 20).await;
    for id in &published {
        let new = queue.republish(id, "new").id().await;
        assert_eq!(bucket(&new), bucket(id));
        assert_eq!(queue.peek_job(id).await.status, 404);
    }
    assert_eq!(queue.size().await, 20);
    let jobs = take(&queue, 20).await.concat();
    queue.set_lanes(stack.api(0), 1).await;
    assert_eq!(lanes(stack.api(0), &queue).await, (1, 8));
    let mut new = Vec::new();
    for job in &jobs {
        new.push(queue.republish(&job.id, "newer").id().await);
        assert_eq!(queue.peek_job(&job.id).await.status, 404);
    }
    assert_eq!(buckets(&new).len(), 1, "one lane is open");
    assert_eq!(stack.totals().await.ready, 20);
    assert_eq!(stack.totals().await.leased, 0);
    stack.finish().await;
}
