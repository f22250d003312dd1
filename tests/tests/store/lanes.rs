//! A queue in several buckets: which lane has what, and how many lanes there are.

use std::collections::HashMap;
use std::time::Duration;

use tidegate_core::{JobId, LaneCounts, QueueKey};
use tidegate_store::{Acked, Cancelled, Claim, Done, Lanes, Released, Stats, Store, StoreConfig};
use tidegate_testkit::{RedisOptions, RedisServer, world};

use crate::fixture::{START, delayed, job};

const BUCKETS: u32 = 16;
const QUIET: Duration = Duration::from_millis(1000);

async fn store_of_buckets() -> (RedisServer, Store, QueueKey) {
    let redis = RedisOptions::new().start();
    let mut config = StoreConfig::new(redis.url());
    config.buckets = BUCKETS;
    let store = Store::connect(&config).await.unwrap();
    (redis, store, QueueKey::try_from("shop/orders").unwrap())
}

const fn counts(open: u16, used: u16) -> LaneCounts {
    LaneCounts { open, used }
}

/// Two jobs in each of so many lanes.
async fn publish(store: &Store, queue: &QueueKey, lanes: u16) -> Vec<[JobId; 2]> {
    let mut ids = Vec::new();
    for lane in 0..lanes {
        let jobs = [format!("{lane} first"), format!("{lane} second")].map(|body| job(&body));
        let published = store.publish(queue.lane(lane), &jobs, None).await.unwrap();
        ids.push(published.try_into().unwrap());
    }
    ids
}

#[tokio::test]
async fn lanes_keep_their_own_order_and_ids_need_no_lane() {
    let (redis, store, queue) = store_of_buckets().await;
    let ids = publish(&store, &queue, 4).await;
    let claims = [Claim {
        count: 2,
        ttr_ms: 60_000,
    }];
    let mut attempts = HashMap::new();
    for (lane, ids) in (0..).zip(&ids) {
        assert_eq!(store.lane_in(ids[0].bucket(), &queue, 4), Some(lane));
        assert_eq!(store.stats(queue.lane(lane)).await.unwrap().ready, 2);
        let peeked = store.peek_ready(queue.lane(lane)).await.unwrap().unwrap();
        assert_eq!(peeked.job.id, ids[0]);
        let reserved = store.reserve(queue.lane(lane), &claims).await.unwrap();
        let jobs = &reserved.jobs[0];
        assert_eq!(jobs[0].body, format!("{lane} first"));
        assert_eq!(jobs[1].body, format!("{lane} second"));
        attempts.extend(jobs.iter().map(|job| (job.id, job.attempt)));
        let empty = store.reserve(queue.lane(lane), &claims).await.unwrap();
        assert!(empty.jobs[0].is_empty());
    }
    let other = QueueKey::try_from("shop/other").unwrap();
    for id in ids.iter().map(|ids| ids[0]) {
        assert_eq!(
            store.peek_job(&queue, id).await.unwrap().unwrap().job.id,
            id
        );
        assert_eq!(store.peek_job(&other, id).await.unwrap(), None);
        let released = store.release(&other, id, attempts[&id]).await.unwrap();
        assert_eq!(released, Released::AlreadyGone);
        let released = store.release(&queue, id, attempts[&id]).await.unwrap();
        assert_eq!(released, Released::Done);
    }
    let cancelled = store.cancel(&queue, ids[2][0]).await.unwrap();
    assert!(matches!(cancelled, Cancelled::Done { .. }));
    // Some of each lane, one that is gone, and one of no bucket, in one call.
    let nowhere = JobId::new(START, BUCKETS as u16, 1_000_001, 0);
    let done = |id| Done { id, attempt: None };
    let mut asked: Vec<Done> = ids.iter().map(|ids| done(ids[1])).collect();
    asked.extend([ids[2][0], nowhere, ids[3][0]].map(done));
    let acked = store.ack_all(&queue, &asked).await.unwrap();
    let is_done: Vec<bool> = acked
        .iter()
        .map(|acked| matches!(acked, Acked::Done { .. }))
        .collect();
    assert_eq!(is_done, [true, true, true, true, false, false, true]);
    let listed = store.all_queues().await.unwrap();
    assert_eq!(listed.len(), 1, "{listed:?}");
    let left = Stats {
        ready: 2,
        ..Stats::default()
    };
    assert_eq!(listed[0].stats, left);
    world::check(&redis.url()).await;
}

#[tokio::test]
async fn a_job_is_replaced_in_its_own_lane_only() {
    let (redis, store, queue) = store_of_buckets().await;
    let ids = publish(&store, &queue, 2).await;
    let new = [delayed("new", 60_000)];
    let lane = queue.lane(1);
    store.publish(lane, &new, Some(ids[1][0])).await.unwrap();
    store.publish(lane, &new, Some(ids[0][0])).await.unwrap();
    assert_eq!(store.peek_job(&queue, ids[1][0]).await.unwrap(), None);
    assert!(store.peek_job(&queue, ids[0][0]).await.unwrap().is_some());
    let stats = store.stats(lane).await.unwrap();
    assert_eq!((stats.ready, stats.delayed), (1, 2));
    world::check(&redis.url()).await;
}

async fn row(lanes: &Lanes, queue: &QueueKey) -> Option<LaneCounts> {
    lanes.list().await.unwrap().get(queue).copied()
}

#[tokio::test]
async fn closed_lanes_stay_in_use_until_they_were_found_empty_a_while_after() {
    let (_redis, store, queue) = store_of_buckets().await;
    let at = |ms| store.at(START + ms).lanes();
    let settled = async |ms, were, still| at(ms).settle(&queue, were, still, QUIET).await.unwrap();
    assert_eq!(row(&at(0), &queue).await, None);
    assert_eq!(at(0).set(&queue, 8).await.unwrap(), counts(8, 8));
    assert_eq!(row(&at(0), &queue).await, Some(counts(8, 8)));
    assert_eq!(at(100).set(&queue, 2).await.unwrap(), counts(2, 8));
    assert!(!settled(1099, counts(2, 8), 2).await, "closed just now");
    assert_eq!(at(1100).set(&queue, 4).await.unwrap(), counts(4, 8));
    assert!(!settled(1100, counts(2, 8), 2).await, "opened meanwhile");
    assert!(settled(1100, counts(4, 8), 6).await, "closed at 100");
    assert_eq!(at(1200).set(&queue, 1).await.unwrap(), counts(1, 6));
    assert!(!settled(2199, counts(1, 6), 1).await);
    assert!(settled(2200, counts(1, 6), 1).await);
    assert_eq!(
        row(&at(0), &queue).await,
        None,
        "as one that never had more"
    );
}

#[tokio::test]
async fn a_lane_that_a_job_came_to_late_is_in_use_again() {
    let (_redis, store, queue) = store_of_buckets().await;
    let at = |ms| store.at(START + ms).lanes();
    let settled = async |ms, were| at(ms).settle(&queue, were, 1, QUIET).await.unwrap();
    assert_eq!(at(0).cover(&queue, 4).await.unwrap(), counts(1, 4));
    assert!(!settled(999, counts(1, 4)).await);
    assert_eq!(at(1500).cover(&queue, 3).await.unwrap(), counts(1, 4));
    // It may have looked before the job came.
    assert!(!settled(2499, counts(1, 4)).await);
    assert!(settled(2500, counts(1, 4)).await);
    assert_eq!(at(0).set(&queue, 8).await.unwrap(), counts(8, 8));
    assert_eq!(at(0).cover(&queue, 3).await.unwrap(), counts(8, 8));
}
