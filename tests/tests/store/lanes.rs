//! A queue in several buckets: the jobs of each lane, and the table of lanes.

use std::collections::HashMap;
use std::ops::Range;

use tidegate_core::keys::DeploymentKeys;
use tidegate_core::v1::consume::Outcome;
use tidegate_core::{JobId, JobState, JobsByState, LaneCounts, LaneNumbers, LaneRow, QueueKey};
use tidegate_store::{
    AckRequest, CancelOutcome, Claim, Inconsistency, Lanes, Store, StoreConfig, StoreError,
    Unavailable,
};
use tidegate_testkit::{RedisOptions, RedisServer, connect_to_redis, consistency};

use crate::audit::defects;
use crate::fixture::{START, StoreFixture, all_queues, delayed, fixture, job};
use crate::wrong_counts::miscount;

const BUCKETS: u32 = 16;

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

/// Publishes two jobs in each of this many lanes.
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
    let claims = [Claim::new(2, 60_000)];
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
        assert_eq!(released, Outcome::Gone);
        let released = store.release(&queue, id, attempts[&id]).await.unwrap();
        assert_eq!(released, Outcome::Released);
    }
    let cancelled = store
        .cancel(&queue, ids[2][0], tidegate_core::IfRunning::Refuse)
        .await
        .unwrap();
    assert!(matches!(cancelled, CancelOutcome::Done { .. }));
    // Jobs of each lane, one that is deleted, and one of no bucket, in one call.
    let nowhere = JobId::new(START, BUCKETS as u16, 1_000_001, 0);
    let mut asked: Vec<AckRequest> = ids.iter().map(|ids| ids[1].into()).collect();
    asked.extend([ids[2][0], nowhere, ids[3][0]].map(AckRequest::from));
    let acked = store.ack_all(&queue, &asked, 0).await.unwrap();
    let is_done: Vec<bool> = acked
        .iter()
        .map(|acked| acked.outcome == Outcome::DONE)
        .collect();
    assert_eq!(is_done, [true, true, true, true, false, false, true]);
    let listed = all_queues(&store).await;
    assert_eq!(listed.len(), 1, "{listed:?}");
    let left = JobsByState {
        ready: 2,
        ..JobsByState::default()
    };
    assert_eq!(listed[0].stats, left);
    consistency::check(&redis.url()).await;
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
    consistency::check(&redis.url()).await;
}

async fn row(lanes: &Lanes, queue: &QueueKey) -> Option<LaneCounts> {
    let rows = lanes.rows().await.unwrap();
    rows.by_queue.get(queue).map(|row| row.counts)
}

/// Closes these lanes of a queue, from the last one on, in the epoch of the row. Returns how many are closed.
async fn close(store: &Store, queue: &QueueKey, row: LaneRow, lanes: Range<u16>) -> u16 {
    let mut closed = 0;
    for lane in lanes.rev() {
        if !store.close_lane(queue.lane(lane), row.epoch).await.unwrap() {
            break;
        }
        closed += 1;
    }
    closed
}

async fn is_closed(store: &Store, queue: &QueueKey, lane: u16) -> bool {
    let jobs = [job("x")];
    let published = store.try_publish(queue.lane(lane), &jobs, None, None);
    let published = published.await.unwrap().stored();
    if let Some(published) = &published {
        let _ = store.ack(queue, published[0].id, None).await.unwrap();
    }
    published.is_none()
}

#[tokio::test]
async fn closed_lanes_stay_in_use_until_they_are_closed_in_their_buckets() {
    let (redis, store, queue) = store_of_buckets().await;
    let lanes = store.lanes();
    assert_eq!(row(&lanes, &queue).await, None);
    let raised = lanes.set(&queue, 8, 0).await.unwrap();
    assert_eq!(raised.counts, counts(8, 8));
    let lowered = lanes.set(&queue, 2, 0).await.unwrap();
    assert_eq!(lowered.counts, counts(2, 8));
    assert!(lowered.epoch > raised.epoch);
    assert_eq!(close(&store, &queue, lowered, 2..8).await, 6);
    assert!(
        !lanes
            .settle(&queue, raised, 2, raised.numbers)
            .await
            .unwrap()
    );
    assert!(
        lanes
            .settle(&queue, lowered, 2, lowered.numbers)
            .await
            .unwrap()
    );
    assert_eq!(row(&lanes, &queue).await, Some(counts(2, 2)));
    assert!(!is_closed(&store, &queue, 1).await && is_closed(&store, &queue, 2).await);
    let lowered = lanes.set(&queue, 1, 0).await.unwrap();
    assert_eq!(close(&store, &queue, lowered, 1..2).await, 1);
    assert!(
        lanes
            .settle(&queue, lowered, 1, LaneNumbers::FIRST_LANE)
            .await
            .unwrap()
    );
    assert_eq!(row(&lanes, &queue).await, None, "unchanged from the start");
    let other = QueueKey::try_from("shop/other").unwrap();
    let of_other = lanes.set(&other, 2, 0).await.unwrap();
    assert!(
        of_other.epoch > lowered.epoch,
        "a queue that comes back gets a later epoch"
    );
    consistency::check(&redis.url()).await;
}

#[tokio::test]
async fn a_late_settle_does_not_hide_newer_jobs() {
    let (_redis, store, queue) = store_of_buckets().await;
    let lanes = store.lanes();
    lanes.set(&queue, 8, 0).await.unwrap();
    let looked_at = lanes.set(&queue, 2, 0).await.unwrap();
    assert_eq!(close(&store, &queue, looked_at, 2..8).await, 6);
    let raised = lanes.set(&queue, 8, 0).await.unwrap();
    store.open_lane(queue.lane(5), raised.epoch).await.unwrap();
    let jobs = [job("x")];
    store.publish(queue.lane(5), &jobs, None).await.unwrap();
    let lowered = lanes.set(&queue, 2, 0).await.unwrap();
    assert_eq!(lowered.counts, looked_at.counts);
    assert!(
        !lanes
            .settle(&queue, looked_at, 2, looked_at.numbers)
            .await
            .unwrap(),
        "lane 5 holds a job"
    );
    assert_eq!(close(&store, &queue, lowered, 2..8).await, 2);
}

/// Closes the first lane, which is in the only bucket of a fixture. The scripts treat it like any other lane.
async fn closes(f: &StoreFixture, now_ms: u64) -> bool {
    let lane = f.queue.lane(0);
    f.store.at(now_ms).close_lane(lane, 1).await.unwrap()
}

#[tokio::test]
async fn a_lane_that_holds_a_job_in_any_state_is_not_closed() {
    let f = fixture().await;
    for job in [
        job("ready"),
        delayed("near", 1000),
        delayed("far", 3_600_000),
    ] {
        let id = f.publish(START, job.clone()).await;
        assert!(!closes(&f, START).await, "{job:?}");
        let _ = f.store.ack(&f.queue, id, None).await.unwrap();
    }
    let id = f.publish(START, job("leased, then dead")).await;
    assert_eq!(f.reserve(START, 1, 10).await.len(), 1);
    assert!(!closes(&f, START).await);
    assert_eq!(f.move_due(START + 20).await.buried, 1);
    assert!(!closes(&f, START + 20).await);
    let _ = f.store.ack(&f.queue, id, None).await.unwrap();
    assert!(closes(&f, START + 20).await);
    consistency::check(&f.redis.url()).await;
}

#[tokio::test]
async fn a_wrong_count_does_not_close_a_lane_and_stale_hints_do_not_keep_it_open() {
    let f = fixture().await;
    let client = redis::Client::open(f.redis.url()).unwrap();
    let mut redis = connect_to_redis(&client).await.unwrap();
    let mut add = async |count: &str, jobs: i64| {
        let mut add = redis::cmd("HINCRBY");
        let add = add.arg("tg:0:{8209}:q:1").arg(count).arg(jobs);
        add.exec_async(&mut redis).await.unwrap();
    };
    for (job, count) in [(job("ready"), "ready"), (delayed("near", 1000), "delayed")] {
        let id = f.publish(START, job).await;
        add(count, -1).await;
        assert!(!closes(&f, START).await, "a live hint of {count}");
        add(count, 1).await;
        let cancelled = f
            .store
            .at(START)
            .cancel(&f.queue, id, tidegate_core::IfRunning::Refuse)
            .await
            .unwrap();
        assert!(matches!(cancelled, CancelOutcome::Done { .. }));
    }
    assert!(closes(&f, START).await);
}

/// Far timers are in lists that all queues of a bucket share.
#[tokio::test]
async fn a_wrong_count_does_not_close_a_lane_that_holds_a_job_due_in_an_hour() {
    const HOUR_MS: u64 = 3_600_000;
    for (new, state) in [
        (delayed("far", HOUR_MS), JobState::Delayed),
        (job("leased"), JobState::Leased),
    ] {
        let f = fixture().await;
        f.publish(START, new).await;
        f.reserve(START, 1, HOUR_MS).await;
        miscount(&f, &f.queue, state, 0);
        assert!(!closes(&f, START).await, "{state:?}");
    }
}

#[tokio::test]
async fn a_closed_lane_is_empty_to_every_verb_and_opened_by_a_later_epoch_only() {
    let f = fixture().await;
    let (store, queue) = (&f.store, &f.queue);
    let close = async |epoch| store.close_lane(queue.lane(0), epoch).await.unwrap();
    let open = async |epoch| store.open_lane(queue.lane(0), epoch).await.unwrap();
    // A lane that never had a job, and one that had some.
    for (first, had_jobs) in [(1, false), (11, true)] {
        for epoch in [first, first + 2, first] {
            assert!(close(epoch).await, "the latest epoch stays");
        }
        assert!(is_closed(store, queue, 0).await);
        assert!(store.publish(queue, &[job("x")], None).await.is_err());
        assert_eq!(store.stats(queue).await.unwrap(), JobsByState::default());
        assert_eq!(f.reserve(START, 1, 10).await, [""; 0]);
        assert_eq!(store.peek_ready(queue).await.unwrap(), None);
        assert_eq!(store.respawn(queue, 10, 0).await.unwrap(), 0);
        assert_eq!(store.purge_ready(queue).await.unwrap(), 0);
        assert_eq!(store.purge_dead(queue, 10).await.unwrap(), 0);
        assert_eq!(open(first + 1).await, Some(first + 2));
        assert_eq!(open(first + 2).await, Some(first + 2));
        assert!(is_closed(store, queue, 0).await);
        assert_eq!(open(first + 3).await, None);
        assert!(!is_closed(store, queue, 0).await);
        assert_eq!(all_queues(store).await.len(), 1, "{had_jobs}");
    }
    let closed_with_body = [job(&"x".repeat(20_000))];
    assert!(close(21).await);
    let publish = store.try_publish(queue, &closed_with_body, None, None);
    assert!(publish.await.unwrap().stored().is_none());
    // The upload of its body expires.
    consistency::check(&f.redis.url()).await;
}

#[tokio::test]
async fn an_audit_finds_jobs_in_lanes_that_are_not_served() {
    let (redis, store, queue) = store_of_buckets().await;
    let lanes = store.lanes();
    lanes.set(&queue, 8, 0).await.unwrap();
    publish(&store, &queue, 8).await;
    // Lanes that are closed and empty.
    let other = QueueKey::try_from("shop/other").unwrap();
    let of_other = lanes.set(&other, 4, 0).await.unwrap();
    publish(&store, &other, 4).await;
    for lane in 0..4 {
        store.purge_ready(other.lane(lane)).await.unwrap();
    }
    close(&store, &other, of_other, 1..4).await;
    assert_eq!(defects(&store, false).await, []);
    // No order of calls makes a table and a bucket like these.
    let client = redis::Client::open(redis.url()).unwrap();
    let mut connection = connect_to_redis(&client).await.unwrap();
    let mut set = async |key: &str, value: &str| {
        let mut set = redis::cmd("HSET");
        let set = set.arg(key).arg(queue.to_string()).arg(value);
        set.exec_async(&mut connection).await.unwrap();
    };
    set("tg:lanes", "1 7 1 1").await;
    let bucket = store.bucket_of(queue.lane(2));
    let queues = DeploymentKeys::new(BUCKETS).keys(bucket).queues();
    set(&queues, "closed 9 1").await;
    let name = || queue.to_string();
    let unserved = |lane| Inconsistency::LaneNotServed { name: name(), lane };
    let found = async |repair| {
        let mut found = defects(&store, repair).await;
        found.sort_by_key(|(defect, _)| defect.to_string());
        found
    };
    let all = |repaired| [2, 7].map(|lane| (unserved(lane), repaired));
    assert_eq!(found(false).await, all(false));
    assert_eq!(found(true).await, all(true));
    assert_eq!(found(true).await, []);
    assert_eq!(row(&lanes, &queue).await, Some(counts(1, 8)));
    for lane in 0..8 {
        assert_eq!(store.stats(queue.lane(lane)).await.unwrap().ready, 2);
    }
    consistency::check(&redis.url()).await;
}

#[tokio::test]
async fn a_server_that_refuses_publishes_refuses_the_probe() {
    let (redis, store, queue) = store_of_buckets().await;
    let client = redis::Client::open(redis.url()).unwrap();
    let mut connection = connect_to_redis(&client).await.unwrap();
    let lane = queue.lane(0);
    store.probe_publish(lane).await.unwrap();
    for (setting, refusing, reason) in [
        ("min-replicas-to-write", "1", Unavailable::TooFewReplicas),
        ("maxmemory", "1", Unavailable::OutOfMemory),
    ] {
        let mut set = redis::cmd("CONFIG");
        set.arg("SET").arg(setting);
        let refuse = set.clone().arg(refusing).to_owned();
        refuse.query_async::<String>(&mut connection).await.unwrap();
        let probed = store.probe_publish(lane).await.unwrap_err();
        let published = store.publish(lane, &[job("x")], None).await.unwrap_err();
        for error in [probed, published] {
            let is_why =
                matches!(&error, StoreError::Unavailable { reason: why, .. } if *why == reason);
            assert!(is_why && error.is_refusal(), "{setting}: {error}");
        }
        set.arg("0");
        set.query_async::<String>(&mut connection).await.unwrap();
        store.probe_publish(lane).await.unwrap();
    }
    assert_eq!(store.stats(lane).await.unwrap(), JobsByState::default());
}
