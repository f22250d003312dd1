//! Slots of a cluster move to other servers in the middle of traffic.

use std::collections::{BTreeSet, HashSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use bytes::Bytes;
use rand::RngExt;
use rand::seq::IndexedRandom;
use tidegate_core::{JobId, NewJob, QueueKey, placement};
use tidegate_store::{
    Cancelled, Claim, Leased, LoadedSlot, MovedDue, Released, Store, StoreConfig, StoreError,
    Swept, Unavailable,
};
use tidegate_testkit::cluster_group::PASSWORD;
use tidegate_testkit::{ClusterGroup, Queue, Traffic, figure, random, world};
use tokio::time::sleep;

use crate::fleet::Fleet;
use crate::turn;

const TOKEN: &str = "pump-under-test";
/// Slots that move while requests go on.
const SLOTS_MOVED: usize = 50;

/// What became of the jobs of one producer and consumer.
#[derive(Debug, Default)]
struct Book {
    published: HashSet<JobId>,
    /// Acked, cancelled, purged or expired, as the answers told.
    gone: HashSet<JobId>,
    calls: u64,
}

/// A call that may meet anything but a failure.
fn went_well<T>(what: &str, answer: Result<T, StoreError>) -> T {
    answer.unwrap_or_else(|error| panic!("{what}: {error}"))
}

/// A pump's call may be told that the bucket is not ready; it comes again then.
fn of_pump<T>(what: &str, answer: Result<T, StoreError>) -> Option<T> {
    match answer {
        Err(StoreError::Unavailable {
            reason: Unavailable::NotReady,
            ..
        }) => None,
        answer => Some(went_well(what, answer)),
    }
}

fn a_job(rng: &mut impl RngExt) -> NewJob {
    // Some are outside of their record, some go around the script.
    let size = *[10, 10, 3000, 20_000].choose(rng).unwrap();
    let body: Vec<u8> = (0..size).map(|_| rng.random()).collect();
    NewJob {
        body: Bytes::from(body),
        attributes: vec![],
        delay_ms: *[0, 0, 5, 40, 200_000].choose(rng).unwrap(),
        ttl_ms: 0,
        tries: 1000,
        versioned_id: false,
    }
}

/// All that producers, consumers and operators do, until told to stop.
async fn use_queue(store: Store, queue: QueueKey, name: String, stop: Arc<AtomicBool>) -> Book {
    let mut rng = random(&name);
    let mut book = Book::default();
    while !stop.load(Ordering::Relaxed) {
        book.calls += 1;
        match rng.random_range(0..10) {
            0..4 => {
                let jobs: Vec<NewJob> = (0..3).map(|_| a_job(&mut rng)).collect();
                let ids = went_well("publish", store.publish(&queue, &jobs, None).await);
                book.published.extend(ids);
            }
            4..7 => {
                let claims = [Claim {
                    count: 3,
                    ttr_ms: 500,
                }];
                let reserved = went_well("reserve", store.reserve(&queue, &claims).await);
                for job in reserved.jobs.into_iter().flatten() {
                    if rng.random_bool(0.2) {
                        let released = store.release(&queue, job.id, job.attempt).await;
                        let _: Released = went_well("release", released);
                        continue;
                    }
                    let _ = went_well("ack", store.ack(&queue, job.id, None).await);
                    book.gone.insert(job.id);
                }
            }
            7 => {
                let all: Vec<JobId> = book.published.difference(&book.gone).copied().collect();
                if let Some(id) = all.choose(&mut rng) {
                    went_well("peek", store.peek_job(&queue, *id).await);
                    let cancelled = went_well("cancel", store.cancel(&queue, *id).await);
                    if matches!(cancelled, Cancelled::Done { .. }) {
                        book.gone.insert(*id);
                    }
                }
            }
            8 => {
                went_well("stats", store.stats(&queue).await);
                went_well("peek", store.peek_ready(&queue).await);
                went_well("respawn", store.respawn(&queue, 5, 0).await);
            }
            _ => {
                let bucket = store.bucket_of(&queue);
                went_well("list_queues", store.list_queues(bucket, 0).await);
            }
        }
    }
    book
}

/// All that a pump does, until told to stop. Answers how often it was put off.
async fn pump(store: Store, bucket: u16, stop: Arc<AtomicBool>) -> u64 {
    let mut put_off = 0;
    while !stop.load(Ordering::Relaxed) {
        let leased = of_pump("lease", store.lease_acquire(bucket, TOKEN, &[]).await);
        put_off += u64::from(leased.is_none());
        assert_ne!(leased, Some(Leased::NotOurs));
        let loaded = of_pump("load_slot", store.load_slot(bucket, TOKEN, 50).await);
        assert_ne!(loaded, Some(LoadedSlot::NotLeading));
        let moved = of_pump("move_due", store.move_due(bucket, TOKEN, 50).await);
        assert_ne!(moved, Some(MovedDue::NotLeading));
        let swept = of_pump("sweep", store.sweep(bucket, TOKEN, 50).await);
        assert_ne!(swept, Some(Swept::NotLeading));
        tokio::task::yield_now().await;
    }
    put_off
}

/// Redis looks at the owner of a key at each step of a script, so a script could end in the middle while
/// some keys of its bucket are here and some there. It must not begin then.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_verb_is_half_done_while_a_slot_moves_key_by_key() {
    let _turn = turn().await;
    let group = ClusterGroup::start().await;
    let mut config = StoreConfig::new("");
    config.cluster = vec![group.servers[1].url()];
    config.password = Some(PASSWORD.to_owned());
    config.buckets = 1;
    let store = Store::connect(&config).await.unwrap();
    let queue = QueueKey::try_from("shop/orders").unwrap();
    let stop = Arc::new(AtomicBool::new(false));
    let users: Vec<_> = (0..3)
        .map(|number| {
            let name = format!("user {number}");
            let using = use_queue(store.clone(), queue.clone(), name, Arc::clone(&stop));
            tokio::spawn(using)
        })
        .collect();
    let pump = tokio::spawn(pump(store.clone(), 0, Arc::clone(&stop)));
    let slot = group.slot_of_bucket(0, 1).await;
    let mut rng = random("mover");
    let mut keys = 0;
    for _ in 0..6 {
        sleep(Duration::from_millis(100)).await;
        let from = group.owner_of(slot).await;
        let to = (from + 1) % 3;
        let on_its_way = group.begin_move(slot, to).await;
        loop {
            // Time for calls to come between two keys.
            sleep(Duration::from_millis(rng.random_range(0..10))).await;
            // A call may find a server without its script, be sent on, and find another one.
            group.forget_scripts(from).await;
            group.forget_scripts(to).await;
            let moved = on_its_way.move_keys(rng.random_range(1..20)).await;
            keys += moved;
            if moved == 0 {
                break;
            }
        }
        on_its_way.end().await;
    }
    sleep(Duration::from_millis(100)).await;
    stop.store(true, Ordering::Relaxed);
    let mut book = Book::default();
    for user in users {
        let one = user.await.unwrap();
        book.published.extend(one.published);
        book.gone.extend(one.gone);
        book.calls += one.calls;
    }
    let put_off = pump.await.unwrap();
    figure(&format!(
        "6 moves of one slot, {keys} keys: {} calls, {} jobs published, {} gone, the pump was put off {put_off} times",
        book.calls,
        book.published.len(),
        book.gone.len()
    ));
    assert!(keys > 50 && book.published.len() > 100);
    group.check_world().await;
    let totals = group.totals().await;
    let left = totals.delayed + totals.ready + totals.leased + totals.dead;
    assert_eq!(left, (book.published.len() - book.gone.len()) as u64);
    for id in book.published.difference(&book.gone) {
        assert!(store.peek_job(&queue, *id).await.unwrap().is_some());
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn slots_move_under_load_and_no_request_fails() {
    let _turn = turn().await;
    let group = ClusterGroup::start().await;
    let fleet = Fleet::start(2, 2, &group.settings()).await;
    let mut queues: Vec<Queue> = Vec::new();
    let mut buckets = BTreeSet::new();
    for number in 0..8 {
        let name = format!("q{number}");
        let queue = fleet.queue(&name).await;
        queues.push(queue.at(&fleet.apis[number % 2]));
        let key = QueueKey::try_from(format!("shop/{name}").as_str()).unwrap();
        buckets.insert(placement::bucket_of(&key, 0, 256));
    }
    let mut traffic = Traffic::start(&queues, 8, 16);
    traffic
        .until("jobs pass", 200, |seen| seen.acked.len())
        .await;
    let others = (0..256).filter(|bucket| !buckets.contains(bucket));
    let wanted: Vec<u16> = buckets
        .iter()
        .copied()
        .chain(others)
        .take(SLOTS_MOVED)
        .collect();
    let begin = std::time::Instant::now();
    for bucket in wanted {
        let slot = group.slot_of_bucket(bucket, 256).await;
        let to = (group.owner_of(slot).await + 1) % 3;
        group.move_slot(slot, to).await;
    }
    let took = begin.elapsed();
    traffic.until_all_acked(|seen| seen.published.clone()).await;
    traffic.end().await;
    traffic.show(&format!("{SLOTS_MOVED} slots moved in {took:?}"));
    assert_eq!(traffic.seen().errors, 0, "{}", fleet.logs());
    assert_eq!(group.totals().await, world::Totals::default());
    group.check_world().await;
    assert!(!fleet.logs().contains("sesame"));
}

/// Longer than the command timeout, which is for answers: "not now" is one.
const SLOW_MOVE: Duration = Duration::from_secs(5);

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn requests_wait_for_a_slot_that_moves_slowly_and_those_of_other_slots_do_not() {
    let _turn = turn().await;
    let group = ClusterGroup::start().await;
    let fleet = Fleet::start(1, 1, &group.settings()).await;
    let (moving, other) = (fleet.queue("moving").await, fleet.queue("other").await);
    moving.publish("before").id().await;
    let key = QueueKey::try_from("shop/moving").unwrap();
    let bucket = placement::bucket_of(&key, 0, 256);
    let slot = group.slot_of_bucket(bucket, 256).await;
    let to = (group.owner_of(slot).await + 1) % 3;
    let on_its_way = group.begin_move(slot, to).await;
    assert_eq!(on_its_way.move_keys(1).await, 1);
    let begin = std::time::Instant::now();
    let there = moving.apart();
    let waiting = tokio::spawn(async move { there.publish("meanwhile").id().await });
    let mut passed = 0;
    while begin.elapsed() < SLOW_MOVE {
        let id = other.publish("x").id().await;
        assert_eq!(other.consume().ttr_s(60).job().await.unwrap().id, id);
        other.ack(&id).await;
        passed += 1;
    }
    assert!(!waiting.is_finished());
    while on_its_way.move_keys(100).await > 0 {}
    on_its_way.end().await;
    waiting.await.unwrap();
    figure(&format!(
        "{passed} jobs of another queue passed while a slot moved"
    ));
    assert_eq!(moving.size().await, 2);
    group.check_world().await;
}
