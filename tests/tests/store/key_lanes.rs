//! The scripts that keep a key in one lane while the number of lanes changes. `tests/model/key_lanes.rs` has the order of
//! their calls.

use std::time::Duration;

use tidegate_core::{
    IfExists, IfRunning, JobState, KeyHash, KeyPlacement, LaneNumbers, NativeOptions, NewJob,
    QueueKey, RecordExtension,
};
use tidegate_store::{
    CancelOutcome, Claim, IdempotentRequest, Inconsistency, JobReference, KeyPlace, KeyedCall,
    KeysCursor, PublishJob, PublishRefusal, PublishReply, Store, StoreConfig, StoreError,
    StoredJob,
};
use tidegate_testkit::{RedisControl, RedisOptions, RedisServer, consistency, eventually};

use crate::audit::defects;
use crate::fixture::{START, job};

const WINDOW_MS: u64 = 600_000;

struct LanedKey {
    redis: RedisServer,
    store: Store,
    queue: QueueKey,
    key: KeyHash,
}

/// A queue, and a key that is in another lane with each of 1, 2 and 4 lanes.
async fn laned_key() -> LanedKey {
    let redis = RedisOptions::new().start();
    let mut config = StoreConfig::new(redis.url());
    config.buckets = 16;
    let store = Store::connect(&config).await.unwrap().at(START);
    let queue = QueueKey::try_from("shop/orders").unwrap();
    let keys = (0..1000).map(|number| KeyHash::of_job(&queue, &number.to_string()));
    let mut moving = keys.filter(|key| key.lane(2) == 1 && key.lane(4) == 3);
    let key = moving.next().unwrap();
    LanedKey {
        redis,
        store,
        queue,
        key,
    }
}

fn placement(text: &str) -> KeyPlacement {
    text.parse().unwrap()
}

impl LanedKey {
    fn job(&self, if_exists: IfExists) -> PublishJob {
        let extension = RecordExtension {
            key_hash: Some(self.key.0),
            ..RecordExtension::default()
        };
        PublishJob {
            job: NewJob {
                tries: 0,
                native: Some(Box::new(NativeOptions {
                    extension,
                    ..NativeOptions::default()
                })),
                ..job("x")
            },
            if_exists,
            idempotency: None,
        }
    }

    async fn call(
        &self,
        jobs: Vec<PublishJob>,
        lane: u16,
        row: &str,
        asks: bool,
        atomic: bool,
    ) -> Result<PublishReply, StoreError> {
        let placement = placement(row);
        let call = KeyedCall {
            max_jobs: None,
            is_closed: false,
            place: KeyPlace { lane, placement },
            asks,
            idempotency_window_ms: WINDOW_MS,
            atomic,
        };
        self.store.publish_keyed(&self.queue, jobs, call).await
    }

    /// Publishes or asks; an error is a refused placement.
    async fn publish(
        &self,
        job: PublishJob,
        lane: u16,
        row: &str,
        asks: bool,
    ) -> Result<Result<StoredJob, PublishRefusal>, KeyPlacement> {
        match self.call(vec![job], lane, row, asks, false).await {
            Ok(PublishReply::Done { jobs, .. }) => Ok(jobs[0]),
            Err(StoreError::PlacementStale(floor)) => Err(floor),
            other => panic!("{other:?}"),
        }
    }

    async fn keep(
        &self,
        lane: u16,
        row: &str,
        asks: bool,
    ) -> Result<Result<StoredJob, PublishRefusal>, KeyPlacement> {
        self.publish(self.job(IfExists::Keep), lane, row, asks)
            .await
    }

    fn reference(&self, lane: u16, row: &str) -> JobReference {
        let placement = placement(row);
        JobReference::Key(self.key, KeyPlace { lane, placement })
    }

    async fn keys(&self, lane: u16, row: &str) -> Vec<KeyHash> {
        let (mut keys, mut from) = (Vec::new(), KeysCursor::default());
        loop {
            let lane = self.queue.lane(lane);
            let page = self.store.lane_keys(lane, placement(row), &from, 3);
            let page = page.await.unwrap();
            keys.extend(page.keys);
            match page.next {
                Some(next) => from = next,
                None => return keys,
            }
        }
    }

    /// Leases the job of a lane and ends it, so that it is kept.
    async fn end(&self, lane: u16) {
        let lane = self.queue.lane(lane);
        let claims = [Claim::new(1, 60_000)];
        let leased = self.store.reserve(lane, &claims).await.unwrap();
        let leased = [leased.jobs[0][0].id.into()];
        let acked = self.store.ack_all(&self.queue, &leased, 60_000);
        acked.await.unwrap();
    }
}

const ABSENT: Result<Result<StoredJob, PublishRefusal>, KeyPlacement> =
    Ok(Err(PublishRefusal::QueueFull));

#[tokio::test]
async fn a_lane_that_was_asked_refuses_earlier_placements_only() {
    let f = laned_key().await;
    assert_eq!(f.keep(0, "5 2,1", true).await, ABSENT);
    let floor = placement("5 2,1");
    assert_eq!(f.keep(0, "0", false).await, Err(floor));
    assert_eq!(f.keep(0, "4 1", true).await, Err(floor));
    assert_eq!(f.keep(0, "5 4,1", false).await, Err(floor), "a lost row");
    // The last epoch of a table that has lost the row: another queue was set since.
    assert_eq!(f.keep(0, "9", false).await, Err(floor));
    let refused = f.store.peek_job(&f.queue, f.reference(0, "4 1")).await;
    assert!(matches!(refused, Err(StoreError::PlacementStale(found)) if found == floor));
    let cancelling = f
        .store
        .cancel(&f.queue, f.reference(0, "4 1"), IfRunning::Ask);
    assert!(matches!(
        cancelling.await,
        Err(StoreError::PlacementStale(_))
    ));
    assert_eq!(
        f.store
            .peek_job(&f.queue, f.reference(0, "5 2,1"))
            .await
            .unwrap(),
        None
    );
    // Settled, and later ones. The floor only rises.
    assert_eq!(f.keep(0, "5 2", true).await, ABSENT);
    assert_eq!(f.keep(0, "6 1,2", true).await, ABSENT);
    assert_eq!(f.keep(0, "5 2,1", true).await, Err(placement("6 1,2")));
    assert_eq!(
        f.keep(0, "6", true).await,
        ABSENT,
        "the row was settled and removed"
    );
    assert_eq!(f.keep(0, "6 1", true).await, ABSENT, "no new floor");
    assert!(f.keep(0, "7 1", false).await.unwrap().is_ok());
    assert_eq!(f.store.stats(&f.queue).await.unwrap().ready, 1);
    assert!(
        f.keep(1, "1 2,1", false).await.unwrap().is_ok(),
        "another lane"
    );
    consistency::check(&f.redis.url()).await;
}

#[tokio::test]
async fn a_lane_that_is_asked_changes_the_job_that_it_has_and_creates_none() {
    let f = laned_key().await;
    let first = f.keep(0, "0", false).await.unwrap().unwrap();
    let kept = f.keep(0, "5 2,1", true).await.unwrap().unwrap();
    assert_eq!(kept.id, first.id);
    let rejected = f.publish(f.job(IfExists::Reject), 0, "5 2,1", true).await;
    assert_eq!(rejected, Ok(Err(PublishRefusal::KeyTaken)));
    let replaced = f.publish(f.job(IfExists::Replace), 0, "5 2,1", true).await;
    assert_eq!(replaced.unwrap().unwrap().id, first.id);
    f.end(0).await;
    let kept = f.keep(0, "5 2,1", true).await.unwrap().unwrap();
    assert_eq!(kept.state, Some(JobState::Done));
    // A job that is done keeps its key until the next one, which is in another lane, is stored.
    for atomic in [false, true] {
        let replaced = f.call(vec![f.job(IfExists::Replace)], 0, "5 2,1", true, atomic);
        let PublishReply::Done { jobs, .. } = replaced.await.unwrap() else {
            panic!("it is not refused");
        };
        assert_eq!(jobs, [Err(PublishRefusal::IsDone(first.id))]);
    }
    // To a later job of the call it is replaced.
    for atomic in [false, true] {
        let jobs = vec![f.job(IfExists::Replace), f.job(IfExists::Keep)];
        let PublishReply::Done { jobs, .. } = f.call(jobs, 0, "5 2,1", true, atomic).await.unwrap()
        else {
            panic!("neither is there");
        };
        assert_eq!(jobs, [Err(PublishRefusal::IsDone(first.id)); 2]);
    }
    let kept = f.keep(0, "5 2,1", true).await.unwrap().unwrap();
    assert_eq!(kept.state, Some(JobState::Done));
    f.store.replace_done(&f.queue, first.id).await.unwrap();
    assert_eq!(f.keep(0, "5 2,1", true).await, ABSENT);
    let stats = f.store.stats(&f.queue).await.unwrap();
    assert_eq!((stats.ready, stats.done), (0, 0));
    consistency::check(&f.redis.url()).await;
}

#[tokio::test]
async fn only_a_job_that_is_done_loses_its_key_to_another_lane() {
    let f = laned_key().await;
    let first = f.keep(0, "0", false).await.unwrap().unwrap();
    f.store.replace_done(&f.queue, first.id).await.unwrap();
    let kept = f.keep(0, "0", false).await.unwrap().unwrap();
    assert_eq!(kept.id, first.id);
    // A late call must not take the key from a later job.
    f.end(0).await;
    let second = f.publish(f.job(IfExists::Replace), 0, "0", false).await;
    let second = second.unwrap().unwrap();
    f.end(0).await;
    f.store.replace_done(&f.queue, first.id).await.unwrap();
    let kept = f.keep(0, "0", false).await.unwrap().unwrap();
    assert_eq!(kept.id, second.id);
    consistency::check(&f.redis.url()).await;
}

#[tokio::test]
async fn a_result_that_is_awaited_stays_when_its_job_loses_the_key() {
    let f = laned_key().await;
    let first = f.keep(0, "0", false).await.unwrap().unwrap();
    let _ = f.store.result(&f.queue, first.id).await.unwrap();
    f.end(0).await;
    f.store.replace_done(&f.queue, first.id).await.unwrap();
    assert_eq!(
        f.store
            .peek_job(&f.queue, f.reference(0, "5 2,1"))
            .await
            .unwrap(),
        None
    );
    let done = f.store.peek_job(&f.queue, first.id).await.unwrap();
    assert_eq!(done.unwrap().job.state, JobState::Done);
    consistency::check(&f.redis.url()).await;
}

#[tokio::test]
async fn a_closed_lane_can_be_asked_and_takes_no_job() {
    let f = laned_key().await;
    assert!(f.store.close_lane(f.queue.lane(1), 7).await.unwrap());
    assert_eq!(f.keep(1, "8 4,2", true).await, ABSENT);
    let published = f.call(vec![f.job(IfExists::Keep)], 1, "9 2,4", false, false);
    assert!(matches!(published.await.unwrap(), PublishReply::LaneClosed));
    assert_eq!(f.store.open_lane(f.queue.lane(1), 9).await.unwrap(), None);
    assert!(f.keep(1, "9 2,4", false).await.unwrap().is_ok());
    assert_eq!(f.keep(1, "7 2,1", false).await, Err(placement("8 4,2")));
    consistency::check(&f.redis.url()).await;
}

#[tokio::test]
async fn a_repeated_request_is_found_in_the_lane_of_its_first_one() {
    let f = laned_key().await;
    let repeated = |request| PublishJob {
        job: job("x"),
        if_exists: IfExists::default(),
        idempotency: Some(IdempotentRequest {
            key: f.key,
            request,
        }),
    };
    let first = f.publish(repeated(1), 0, "0", false).await;
    let first = first.unwrap().unwrap();
    let again = f.publish(repeated(1), 0, "5 2,1", true).await;
    let again = again.unwrap().unwrap();
    assert!(again.replayed && again.id == first.id);
    let other = f.publish(repeated(2), 0, "5 2,1", true).await;
    assert_eq!(other, Ok(Err(PublishRefusal::KeyReused)));
    let has_requests = async |lane| {
        let lane = f.queue.lane(lane);
        f.store.lane_has_requests(lane, WINDOW_MS).await.unwrap()
    };
    assert!(has_requests(0).await && !has_requests(1).await);
    // The queue has no number in this lane any more.
    let _ = f.store.ack(&f.queue, first.id, None).await.unwrap();
    assert!(f.store.close_lane(f.queue.lane(0), 1).await.unwrap());
    let again = f.publish(repeated(1), 0, "5 2,1", true).await;
    assert_eq!(again.unwrap().unwrap().state, None);
}

#[tokio::test]
async fn an_atomic_call_finds_all_jobs_in_a_lane_or_none() {
    let f = laned_key().await;
    let other = PublishJob {
        job: job("no key"),
        if_exists: IfExists::default(),
        idempotency: None,
    };
    let keep = || f.job(IfExists::Keep);
    let ask = async |jobs: Vec<PublishJob>| f.call(jobs, 0, "5 2,1", true, true).await.unwrap();
    let PublishReply::Done { jobs, .. } = ask(vec![keep(), keep(), other.clone()]).await else {
        panic!("none of them is there");
    };
    assert_eq!(jobs, [Err(PublishRefusal::QueueFull); 3]);
    let twice = PublishJob {
        idempotency: Some(IdempotentRequest {
            key: f.key,
            request: 1,
        }),
        ..other.clone()
    };
    let PublishReply::Done { jobs, .. } = ask(vec![twice.clone(), twice]).await else {
        panic!("neither of them is there");
    };
    assert_eq!(jobs, [Err(PublishRefusal::QueueFull); 2]);
    f.keep(0, "6 1,2", false).await.unwrap().unwrap();
    let ask = async |jobs: Vec<PublishJob>| f.call(jobs, 0, "7 2,1", true, true).await.unwrap();
    let PublishReply::Done { jobs, .. } = ask(vec![keep(), keep()]).await else {
        panic!("all of them are there");
    };
    assert!(jobs.iter().all(Result::is_ok));
    for jobs in [vec![keep(), other.clone()], vec![other, keep()]] {
        let absent = jobs.iter().position(|job| job.key().is_none()).unwrap();
        let PublishReply::Refused { index, refusal } = ask(jobs).await else {
            panic!("one of two jobs is there");
        };
        assert_eq!((index, refusal), (absent, PublishRefusal::QueueFull));
    }
    consistency::check(&f.redis.url()).await;
}

#[tokio::test]
async fn a_walk_returns_the_keys_of_a_lane_and_makes_it_refuse_earlier_placements() {
    let f = laned_key().await;
    assert_eq!(f.keys(0, "5 2,1").await, []);
    assert_eq!(f.keep(0, "4 1", false).await, Err(placement("5 2,1")));
    f.keep(0, "6 1,2", false).await.unwrap().unwrap();
    let mut other = f.job(IfExists::Keep);
    let hash = KeyHash::of_job(&f.queue, "another");
    other.job.native.as_mut().unwrap().extension.key_hash = Some(hash.0);
    let jobs = vec![other.clone()];
    let _ = f.call(jobs, 0, "6 1,2", false, false).await.unwrap();
    // Of another queue in the same bucket.
    let mut names = (0..10_000).map(|number| format!("shop/other-{number}"));
    let bucket = f.store.bucket_of(&f.queue);
    let beside = names.find_map(|name| {
        let queue = QueueKey::try_from(name.as_str()).unwrap();
        (f.store.bucket_of(&queue) == bucket).then_some(queue)
    });
    let beside = beside.unwrap();
    let of_beside = KeyHash::of_job(&beside, "another");
    other.job.native.as_mut().unwrap().extension.key_hash = Some(of_beside.0);
    let call = KeyedCall {
        max_jobs: None,
        is_closed: false,
        place: KeyPlace::FIRST_LANE,
        asks: false,
        idempotency_window_ms: WINDOW_MS,
        atomic: false,
    };
    let published = f.store.publish_keyed(&beside, vec![other], call);
    let _ = published.await.unwrap();
    let (mut keys, mut expected) = (f.keys(0, "7 2,1").await, vec![f.key, hash]);
    keys.sort_by_key(|key| key.0);
    expected.sort_by_key(|key| key.0);
    assert_eq!(keys, expected);
    let cancelling = f
        .store
        .cancel(&f.queue, f.reference(0, "7 2,1"), IfRunning::Ask);
    assert!(matches!(
        cancelling.await.unwrap(),
        CancelOutcome::Done { .. }
    ));
    assert_eq!(f.keys(0, "7 2,1").await, [hash]);
}

/// A cursor of `HSCAN` means nothing to another server: the walk would pass over keys.
#[tokio::test]
async fn a_walk_reads_a_shard_again_after_a_restart() {
    let mut f = laned_key().await;
    let mut redis = RedisControl::connect(&f.redis.url()).await;
    redis.configure("hash-max-listpack-entries", "1").await;
    let shard = f.key.shard();
    let hashes = (0..).map(|number: u32| KeyHash::of_job(&f.queue, &number.to_string()));
    let hashes: Vec<KeyHash> = hashes.filter(|it| it.shard() == shard).take(60).collect();
    let jobs = hashes.iter().map(|hash| {
        let mut job = f.job(IfExists::Keep);
        job.job.native.as_mut().unwrap().extension.key_hash = Some(hash.0);
        job
    });
    let _ = f
        .call(jobs.collect(), 0, "5 2,1", false, false)
        .await
        .unwrap();
    let read = async |from: &KeysCursor, limit| {
        let lane = f.queue.lane(0);
        f.store
            .lane_keys(lane, placement("5 2,1"), from, limit)
            .await
            .unwrap()
    };
    let first = read(&KeysCursor::default(), usize::from(shard) + 20).await;
    let inside = first.next.unwrap();
    assert!((1..60).contains(&first.keys.len()));
    let rest = read(&inside, 1000).await;
    assert_eq!(first.keys.len() + rest.keys.len(), 60);
    f.redis.kill();
    f.redis.restart().unwrap();
    let is_back = async || {
        let stats = f.store.stats(&f.queue).await;
        stats.map(drop).map_err(|error| error.to_string())
    };
    eventually("Redis is back", Duration::from_secs(20), is_back).await;
    let again = read(&inside, 1000).await;
    assert_eq!(again.keys.len(), 60);
}

#[tokio::test]
async fn a_row_keeps_the_former_numbers_until_they_are_settled() {
    let f = laned_key().await;
    let lanes = f.store.lanes();
    let numbers = |text: &str| text.parse::<LaneNumbers>().unwrap();
    let mut row = lanes.set(&f.queue, 2, 0).await.unwrap();
    assert_eq!(row.numbers, numbers("2,1"));
    for (open, expected) in [(4, "4,1,2"), (8, "8,1,2,4"), (2, "2,1,4,8")] {
        row = lanes.set(&f.queue, open, 0).await.unwrap();
        assert_eq!(row.numbers, numbers(expected));
    }
    let refused = lanes.set(&f.queue, 3, 0).await;
    assert!(matches!(refused, Err(StoreError::KeysUnsettled(found)) if found == row.numbers));
    let left = row.numbers.without(4);
    let earlier = tidegate_core::LaneRow {
        numbers: left,
        ..row
    };
    assert!(!lanes.settle(&f.queue, earlier, 8, left).await.unwrap());
    assert!(lanes.settle(&f.queue, row, 8, left).await.unwrap());
    let lost = lanes.set(&f.queue, 3, row.epoch + 1).await;
    assert!(matches!(lost, Err(StoreError::LanesLost)));
    let row = lanes.set(&f.queue, 3, row.epoch).await.unwrap();
    assert_eq!(row.numbers, numbers("3,1,2,8"));
    let raised = lanes.raise(&f.queue, 1, 200, Some(numbers("5,8")));
    let raised = raised.await.unwrap();
    assert_eq!((raised.numbers, raised.epoch), (numbers("3,1,2,5,8"), 201));
    let rows = lanes.rows().await.unwrap();
    assert_eq!(rows.row(&f.queue), raised);
    let refused = lanes.set(&f.queue, 6, 201).await;
    assert!(matches!(refused, Err(StoreError::KeysUnsettled(_))));
    for open in [8, 3, 3] {
        let row = lanes.set(&f.queue, open, 201).await.unwrap();
        assert_eq!(
            row.numbers.present(),
            open,
            "one of its numbers can be set at any time"
        );
    }
    let rows = lanes.rows().await.unwrap();
    assert_eq!(rows.row(&f.queue).numbers, raised.numbers);
    let other = QueueKey::try_from("shop/other").unwrap();
    assert_eq!(rows.placement(&other), placement("204"));
}

#[tokio::test]
async fn an_audit_finds_a_key_in_a_lane_that_is_not_its_own() {
    let f = laned_key().await;
    let lanes = f.store.lanes();
    let row = lanes.set(&f.queue, 4, 0).await.unwrap();
    let placement = row.placement().to_string();
    let stored = f.keep(3, &placement, false).await.unwrap().unwrap();
    let audit = |repair| defects(&f.store, repair);
    assert_eq!(audit(false).await, []);
    let row = lanes.set(&f.queue, 2, 0).await.unwrap();
    assert_eq!(audit(false).await, [], "a former number");
    // No order of calls settles a number by which a key is placed.
    let left = row.numbers.without(4);
    assert!(lanes.settle(&f.queue, row, 4, left).await.unwrap());
    let defect = Inconsistency::KeyInWrongLane {
        id: stored.id,
        lane: 3,
    };
    assert_eq!(audit(false).await, [(defect.clone(), false)]);
    assert_eq!(audit(true).await, [(defect, true)]);
    assert_eq!(audit(true).await, []);
    let rows = lanes.rows().await.unwrap();
    assert!(
        rows.placement(&f.queue)
            .former_lanes_of(f.key.lane_hash())
            .contains(&3)
    );
}
