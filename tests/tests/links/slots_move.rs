//! Slots of a cluster move to other servers under load.

use std::collections::{BTreeSet, HashSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use bytes::Bytes;
use rand::RngExt;
use rand::seq::IndexedRandom;
use tidegate_core::v1::consume::Outcome;
use tidegate_core::{JobId, JobsByState, NewJob, QueueKey, placement};
use tidegate_store::{
    CancelOutcome, Claim, LeaseOutcome, LoadSlotOutcome, MoveDueOutcome, QueuePosition, Store,
    StoreConfig, StoreError, SweepOutcome, Unavailable,
};
use tidegate_testkit::cluster_group::PASSWORD;
use tidegate_testkit::{BackgroundTraffic, ClusterGroup, QueueClient, print_figure, random};
use tokio::time::sleep;

use crate::fleet::Fleet;
use crate::turn;

const TOKEN: &str = "pump-under-test";
/// The number of slots that move under load.
const SLOTS_MOVED: usize = 50;

/// The jobs of one producer and consumer.
#[derive(Debug, Default)]
struct Book {
    published: HashSet<JobId>,
    /// Acked or cancelled, according to the answers.
    gone: HashSet<JobId>,
    calls: u64,
}

/// A call that must not fail.
fn went_well<T>(what: &str, answer: Result<T, StoreError>) -> T {
    answer.unwrap_or_else(|error| panic!("{what}: {error}"))
}

/// A call of a pump may be answered that the bucket is not ready; the pump repeats it.
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
    // Some bodies are outside of their record, some are uploaded separately.
    let size = *[10, 10, 3000, 20_000].choose(rng).unwrap();
    let body: Vec<u8> = (0..size).map(|_| rng.random()).collect();
    NewJob {
        body: Bytes::from(body),
        attributes: vec![],
        delay_ms: *[0, 0, 5, 40, 200_000].choose(rng).unwrap(),
        ttl_ms: 0,
        tries: 1000,
        mark: false,
        native: None,
    }
}

/// Runs the verbs of producers, consumers and operators until it is stopped.
async fn use_queue(
    store: Store,
    queue: QueueKey,
    name: String,
    published: Arc<AtomicUsize>,
    stop: Arc<AtomicBool>,
) -> Book {
    let mut rng = random(&name);
    let mut book = Book::default();
    while !stop.load(Ordering::Relaxed) {
        book.calls += 1;
        match rng.random_range(0..10) {
            0..4 => {
                let jobs: Vec<NewJob> = (0..3).map(|_| a_job(&mut rng)).collect();
                let ids = went_well("publish", store.publish(&queue, &jobs, None).await);
                published.fetch_add(ids.len(), Ordering::Relaxed);
                book.published.extend(ids);
            }
            4..7 => {
                let claims = [Claim::new(3, 500)];
                let reserved = went_well("reserve", store.reserve(&queue, &claims).await);
                for job in reserved.jobs.into_iter().flatten() {
                    if rng.random_bool(0.2) {
                        let released = store.release(&queue, job.id, job.attempt).await;
                        let _: Outcome = went_well("release", released);
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
                    let cancelled = went_well(
                        "cancel",
                        store
                            .cancel(&queue, *id, tidegate_core::IfRunning::Refuse)
                            .await,
                    );
                    if matches!(cancelled, CancelOutcome::Done { .. }) {
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
                went_well(
                    "list_queues",
                    store.list_queues(bucket, QueuePosition::default()).await,
                );
            }
        }
    }
    book
}

/// Runs the verbs of a pump until it is stopped. Returns how often a bucket was not ready.
async fn pump(store: Store, bucket: u16, stop: Arc<AtomicBool>) -> u64 {
    let mut put_off = 0;
    while !stop.load(Ordering::Relaxed) {
        let leased = of_pump("lease", store.lease_acquire(bucket, TOKEN, &[]).await);
        put_off += u64::from(leased.is_none());
        assert_ne!(leased, Some(LeaseOutcome::NotOurs));
        let loaded = of_pump("load_slot", store.load_slot(bucket, TOKEN, 50).await);
        assert_ne!(loaded, Some(LoadSlotOutcome::NotLeading));
        let moved = of_pump("move_due", store.move_due(bucket, TOKEN, 50, 5).await);
        assert_ne!(moved, Some(MoveDueOutcome::NotLeading));
        let swept = of_pump("sweep", store.sweep(bucket, TOKEN, 50).await);
        assert_ne!(swept, Some(SweepOutcome::NotLeading));
        tokio::task::yield_now().await;
    }
    put_off
}

/// Redis checks the owner of a key at each command of a script, so a script could fail half-way while the keys of its
/// bucket are on two servers. It must not start then.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn verbs_stay_atomic_while_a_slot_moves_key_by_key() {
    const MOVES_MIN: usize = 6;
    const KEYS_MIN: usize = 50;
    const JOBS_MIN: usize = 100;
    let _turn = turn().await;
    let group = ClusterGroup::start().await;
    let mut config = StoreConfig::new("");
    config.cluster = vec![group.servers[1].url()];
    config.password = Some(PASSWORD.to_owned());
    config.buckets = 1;
    let store = Store::connect(&config).await.unwrap();
    let queue = QueueKey::try_from("shop/orders").unwrap();
    let stop = Arc::new(AtomicBool::new(false));
    let published = Arc::new(AtomicUsize::new(0));
    let users: Vec<_> = (0..3)
        .map(|number| {
            let name = format!("user {number}");
            let published = Arc::clone(&published);
            let using = use_queue(store.clone(), queue.clone(), name, published, stop.clone());
            tokio::spawn(using)
        })
        .collect();
    let pump = tokio::spawn(pump(store.clone(), 0, Arc::clone(&stop)));
    let slot = group.slot_of_bucket(0, 1).await;
    let mut rng = random("mover");
    let (mut keys, mut moves) = (0, 0);
    // More often on a machine that is so busy that few calls come between.
    while moves < MOVES_MIN || keys < KEYS_MIN || published.load(Ordering::Relaxed) < JOBS_MIN {
        moves += 1;
        assert!(moves <= 10 * MOVES_MIN, "{keys} keys, {published:?} jobs");
        sleep(Duration::from_millis(100)).await;
        let from = group.owner_of(slot).await;
        let to = (from + 1) % 3;
        let on_its_way = group.begin_move(slot, to).await;
        loop {
            // Time for calls to come between two keys.
            sleep(Duration::from_millis(rng.random_range(0..10))).await;
            // A call may meet a server without its script, be redirected, and meet another one.
            group.flush_scripts(from).await;
            group.flush_scripts(to).await;
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
    print_figure(&format!(
        "{moves} moves of one slot, {keys} keys: {} calls, {} jobs published, {} gone, the pump was put off {put_off} times",
        book.calls,
        book.published.len(),
        book.gone.len()
    ));
    group.check_consistency().await;
    let totals = group.totals().await;
    let left = totals.delayed + totals.ready + totals.leased + totals.dead;
    assert_eq!(left, (book.published.len() - book.gone.len()) as u64);
    for id in book.published.difference(&book.gone) {
        assert!(store.peek_job(&queue, *id).await.unwrap().is_some());
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_request_fails_while_slots_move_under_load() {
    let _turn = turn().await;
    let group = ClusterGroup::start().await;
    let fleet = Fleet::start(2, 2, &group.settings()).await;
    let mut queues: Vec<QueueClient> = Vec::new();
    let mut buckets = BTreeSet::new();
    for number in 0..8 {
        let name = format!("q{number}");
        let queue = fleet.queue(&name).await;
        queues.push(queue.on_api(&fleet.apis[number % 2]));
        let key = QueueKey::try_from(format!("shop/{name}").as_str()).unwrap();
        buckets.insert(placement::bucket_of(&key, 0, 256));
    }
    let mut traffic = BackgroundTraffic::start(&queues, 8, 16);
    traffic
        .wait_until("jobs pass", 200, |seen| seen.acked.len())
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
    traffic
        .wait_until_all_acked(|seen| seen.published.clone())
        .await;
    traffic.end().await;
    traffic.print(&format!("{SLOTS_MOVED} slots moved in {took:?}"));
    assert_eq!(traffic.results().errors, 0, "{}", fleet.logs());
    assert_eq!(group.totals().await, JobsByState::default());
    group.check_consistency().await;
    assert!(!fleet.logs().contains("sesame"));
}

/// Longer than the command timeout, which a call may exceed while it is answered TRYAGAIN.
const SLOW_MOVE: Duration = Duration::from_secs(5);

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn only_requests_for_a_moving_slot_wait() {
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
    let there = moving.with_separate_connections();
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
    print_figure(&format!(
        "{passed} jobs of another queue passed while a slot moved"
    ));
    assert_eq!(moving.size().await, 2);
    group.check_consistency().await;
}
