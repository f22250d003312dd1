//! All orders of some calls about the job of a key: producers, two consumers and the pump call in every possible order,
//! and a judge that knows only the outcomes checks each of them. At the end of each order the job is consumed: what was
//! not acknowledged or cancelled must still come, once, in its newest version.
//!
//! `TIDEGATE_ORDER_LENGTH=<number>` makes longer orders than 3; those of 4 calls take some minutes.

mod judge;

use std::collections::{BTreeMap, BTreeSet};

use bytes::Bytes;
use futures_util::future::join_all;
use tidegate_core::v1::job::JobChange;
use tidegate_core::v1::publish::DueTime;
use tidegate_core::v1::values::DurationMs;
use tidegate_core::{
    Failures, IfExists, IfRunning, JobState, KeyHash, NativeOptions, NewJob, QueueKey, RetryPolicy,
};
use tidegate_core::{RecordExtension, RetryDelays, RetrySteps};
use tidegate_store::{
    AckRequest, AfterFailure, Claim, FailRequest, KeyPlace, KeyedCall, LeaseOutcome, LeasedJob,
    LoadSlotOutcome, MoveDueOutcome, PublishJob, PublishReply, Store, StoreConfig, SweepOutcome,
};
use tidegate_testkit::{RedisOptions, consistency, print_figure};

use self::judge::{ATTEMPTS_MAX, OrderJudge};
use crate::fixture::{LOSSES_MAX, START, TOKEN, job};

/// Orders that are tried at the same time, each in a separate bucket.
const PARALLEL: usize = 64;
/// Rounds of orders between two checks of all buckets.
const ROUNDS_PER_CHECK: usize = 16;
const LENGTH: usize = 3;
const LEASE_MS: u64 = 60_000;
const DELAY_MS: u64 = 5000;
/// Longer than any lease and delay of an order.
const LONG_MS: u64 = 3_600_000;
const TOUCH_MS: u64 = 600_000;

/// A call. Those of consumers are about the first delivery, or about the last one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum OrderedCall {
    AckFirst,
    AckAndRetain,
    FailFirst,
    BuryLast,
    TouchFirst,
    ReleaseFirst,
    ReleaseLastForLater,
    CancelAsking,
    CancelRevoking,
    Replace,
    ReplaceForLater,
    Keep,
    Promote,
    Change,
    Reserve,
    Respawn,
    /// Time passes, leases expire, and a pump moves what is due.
    LeaseExpires,
}

const CALLS: [OrderedCall; 17] = [
    OrderedCall::AckFirst,
    OrderedCall::AckAndRetain,
    OrderedCall::FailFirst,
    OrderedCall::BuryLast,
    OrderedCall::TouchFirst,
    OrderedCall::ReleaseFirst,
    OrderedCall::ReleaseLastForLater,
    OrderedCall::CancelAsking,
    OrderedCall::CancelRevoking,
    OrderedCall::Replace,
    OrderedCall::ReplaceForLater,
    OrderedCall::Keep,
    OrderedCall::Promote,
    OrderedCall::Change,
    OrderedCall::Reserve,
    OrderedCall::Respawn,
    OrderedCall::LeaseExpires,
];

/// What happens before each order: one consumer holds the job, or one has lost it to another. The orders after the
/// second are shorter by one call.
const BEGINNINGS: [&[OrderedCall]; 2] = [
    &[OrderedCall::Replace, OrderedCall::Reserve],
    &[
        OrderedCall::Replace,
        OrderedCall::Reserve,
        OrderedCall::LeaseExpires,
        OrderedCall::Reserve,
    ],
];

/// A queue in a bucket of its own, with a clock.
struct OrderRun {
    store: Store,
    bucket: u16,
    queue: QueueKey,
    judge: OrderJudge,
    deliveries: Vec<LeasedJob>,
    versions: u64,
    outcomes: BTreeMap<String, u64>,
}

/// The body of a version. Every other one is stored outside of its record.
fn body(version: u64) -> Bytes {
    let mut body = version.to_be_bytes().to_vec();
    if version.is_multiple_of(2) {
        let noise = (0..2000_u64).map(|at| (at * at * 31 + version * at) as u8);
        body.extend(noise);
    }
    body.into()
}

fn version_of(body: &[u8]) -> u64 {
    u64::from_be_bytes(body[..8].try_into().expect("a version"))
}

fn name(outcome: &impl std::fmt::Debug) -> String {
    let text = format!("{outcome:?}");
    let end = text.find(|letter: char| !letter.is_alphanumeric());
    text[..end.unwrap_or(text.len())].to_owned()
}

impl OrderRun {
    fn store(&self) -> Store {
        self.store.at(self.judge.now_ms)
    }

    fn key(&self) -> KeyHash {
        KeyHash::of_job(&self.queue, "order-17")
    }

    fn note(&mut self, call: OrderedCall, outcome: &impl std::fmt::Debug) {
        let seen = format!("{call:?}: {}", name(outcome));
        *self.outcomes.entry(seen).or_default() += 1;
    }

    async fn publish(&mut self, call: OrderedCall, if_exists: IfExists, delay_ms: u64) {
        self.versions += 1;
        let extension = RecordExtension {
            key_hash: Some(self.key().0),
            ..RecordExtension::default()
        };
        let native = NativeOptions {
            extension,
            ..NativeOptions::default()
        };
        let new = NewJob {
            body: body(self.versions),
            delay_ms,
            tries: 0,
            native: Some(Box::new(native)),
            ..job("")
        };
        let jobs = vec![PublishJob {
            job: new,
            if_exists,
            idempotency: None,
        }];
        let keyed_call = KeyedCall {
            max_jobs: Some(1),
            is_closed: false,
            place: KeyPlace::FIRST_LANE,
            asks: false,
            idempotency_window_ms: 1000,
            atomic: true,
        };
        let published = self
            .store()
            .publish_keyed(&self.queue, jobs, keyed_call)
            .await;
        let PublishReply::Done { jobs, .. } = published.unwrap() else {
            panic!("refused: {:?}", self.judge)
        };
        let stored = jobs[0].unwrap();
        self.note(call, &stored.outcome);
        let due_ms = self.judge.now_ms + delay_ms;
        self.judge
            .published(if_exists, self.versions, due_ms, stored);
    }

    async fn reserve(&mut self) {
        let claims = [Claim::new(2, LEASE_MS)];
        let reserved = self.store().reserve(&self.queue, &claims).await.unwrap();
        let jobs = &reserved.jobs[0];
        assert!(jobs.len() <= 1, "two jobs with one key: {jobs:?}");
        let got = jobs.first().map(|job| {
            let version = version_of(&job.body);
            assert_eq!(job.body, body(version));
            let leased = LeasedJob {
                id: job.id,
                attempt: job.attempt,
            };
            (leased, version)
        });
        self.deliveries.extend(got.map(|(leased, _)| leased));
        let until_ms = self.judge.now_ms + LEASE_MS;
        self.note(OrderedCall::Reserve, &got.is_some());
        self.judge.reserved(got, until_ms);
    }

    async fn ack(&mut self, call: OrderedCall, leased: LeasedJob, retain_ms: u64) {
        let request = AckRequest::from(leased);
        let store = self.store();
        let acked = store.ack_all(&self.queue, &[request], retain_ms).await;
        let acked = acked.unwrap()[0];
        self.note(call, &acked.outcome);
        self.judge.acked(leased, acked, retain_ms);
    }

    async fn fail(&mut self, call: OrderedCall, job: LeasedJob, then: AfterFailure) {
        let policy = RetryPolicy {
            max_attempts: ATTEMPTS_MAX,
            delays: RetryDelays {
                steps: RetrySteps::Listed(vec![DELAY_MS]),
                jitter_permille: 0,
            },
        };
        let failed = [FailRequest {
            job,
            then,
            error: "timeout".to_owned(),
        }];
        let store = self.store();
        let outcome = store.fail_all(&self.queue, &failed, &policy).await.unwrap()[0];
        self.note(call, &outcome);
        self.judge.failed(job, then == AfterFailure::Bury, outcome);
    }

    async fn touch(&mut self, call: OrderedCall, leased: LeasedJob) {
        let store = self.store();
        // Shorter than the lease while that is new.
        let lease_ms = if self.versions.is_multiple_of(2) {
            TOUCH_MS
        } else {
            1
        };
        let leases = [leased];
        let touched = store.touch_all(&self.queue, &leases, Some(lease_ms), LEASE_MS);
        let outcome = touched.await.unwrap()[0];
        self.note(call, &outcome);
        self.judge.touched(leased, outcome);
    }

    async fn release(&mut self, call: OrderedCall, leased: LeasedJob, delay_ms: u64) {
        let store = self.store();
        let released = store.release_all(&self.queue, &[leased], delay_ms).await;
        let outcome = released.unwrap()[0];
        self.note(call, &outcome);
        let due_ms = self.judge.now_ms + delay_ms;
        self.judge.released(leased, due_ms, outcome);
    }

    async fn cancel(&mut self, call: OrderedCall, if_running: IfRunning) {
        let cancelled = self
            .store()
            .cancel(&self.queue, self.key(), if_running)
            .await;
        let outcome = cancelled.unwrap();
        self.note(call, &outcome);
        if if_running == IfRunning::Revoke {
            assert_ne!(outcome, tidegate_store::CancelOutcome::Leased);
        }
        self.judge.cancelled(outcome);
    }

    async fn expire(&mut self, after_ms: u64) {
        self.judge.now_ms += after_ms;
        let store = self.store();
        while let LoadSlotOutcome::Done { more: true, .. } =
            store.load_slot(self.bucket, TOKEN, 50).await.unwrap()
        {}
        while let MoveDueOutcome::Done { more: true, .. } = store
            .move_due(self.bucket, TOKEN, 50, LOSSES_MAX)
            .await
            .unwrap()
        {}
        self.judge.moved();
        let state = self.judge.state();
        let state = state.map_or("gone", JobState::as_str);
        let seen = format!("LeaseExpires: {state}");
        *self.outcomes.entry(seen).or_default() += 1;
    }

    async fn call(&mut self, call: OrderedCall) {
        let (first, last) = (self.deliveries.first(), self.deliveries.last());
        let (first, last) = (first.copied(), last.copied());
        let first = first.expect("a delivery before");
        let last = last.unwrap_or(first);
        match call {
            OrderedCall::AckFirst => self.ack(call, first, 0).await,
            OrderedCall::AckAndRetain => self.ack(call, last, TOUCH_MS).await,
            OrderedCall::FailFirst => {
                self.fail(call, first, AfterFailure::RetryAsConfigured)
                    .await
            }
            OrderedCall::BuryLast => self.fail(call, last, AfterFailure::Bury).await,
            OrderedCall::TouchFirst => self.touch(call, first).await,
            OrderedCall::ReleaseFirst => self.release(call, first, 0).await,
            OrderedCall::ReleaseLastForLater => self.release(call, last, DELAY_MS).await,
            OrderedCall::CancelAsking => self.cancel(call, IfRunning::Ask).await,
            OrderedCall::CancelRevoking => self.cancel(call, IfRunning::Revoke).await,
            OrderedCall::Replace => self.publish(call, IfExists::Replace, 0).await,
            OrderedCall::ReplaceForLater => self.publish(call, IfExists::Replace, DELAY_MS).await,
            OrderedCall::Keep => self.publish(call, IfExists::Keep, 0).await,
            OrderedCall::Promote => {
                let outcome = self.store().promote(&self.queue, self.key()).await.unwrap();
                self.note(call, &outcome);
                self.judge.promoted(outcome);
            }
            OrderedCall::Change => {
                let change = JobChange::from(DueTime::After(DurationMs::saturating(DELAY_MS / 2)));
                let changed = self.store().change(&self.queue, self.key(), change).await;
                let outcome = changed.unwrap();
                self.note(call, &outcome);
                self.judge
                    .changed(self.judge.now_ms + DELAY_MS / 2, &outcome);
            }
            OrderedCall::Reserve => self.reserve().await,
            OrderedCall::Respawn => {
                let respawned = self.store().respawn(&self.queue, 10, 0).await.unwrap();
                self.note(call, &respawned);
                self.judge.respawned(respawned);
            }
            OrderedCall::LeaseExpires => self.expire(LEASE_MS).await,
        }
    }

    /// Makes the calls of an order.
    async fn run(&mut self, beginning: &[OrderedCall], order: &[OrderedCall]) {
        self.deliveries.clear();
        for call in beginning {
            match call {
                OrderedCall::Replace => self.publish(*call, IfExists::Replace, 0).await,
                OrderedCall::Reserve => self.reserve().await,
                _ => self.call(*call).await,
            }
        }
        for call in order {
            self.call(*call).await;
        }
    }

    /// The counts and the record are as the judge expects, and the key leads to the job.
    async fn check(&mut self) {
        let state = self.judge.state();
        let peeked = self
            .store()
            .peek_job(&self.queue, self.key())
            .await
            .unwrap();
        let shown = peeked
            .as_ref()
            .map(|peeked| (peeked.job.id, peeked.job.state));
        let job = self.judge.job.as_ref();
        assert_eq!(shown, job.map(|job| (job.id, job.state)));
        if let (Some(peeked), Some(job)) = (peeked, job) {
            let failures = Failures {
                failures: job.failures,
                losses: job.losses,
            };
            assert_eq!(peeked.job.failures, Some(failures));
        }
        let stats = self.store().stats(&self.queue).await.unwrap();
        let counts = [stats.delayed, stats.ready, stats.leased, stats.dead];
        let expected = JobState::ALL.map(|other| u64::from(state == Some(other)));
        assert_eq!(counts, expected[..4]);
        assert!(stats.done <= 1 && stats.done >= expected[4], "{stats:?}");
    }

    /// What is left of the job is consumed, and then nothing is left of it.
    async fn finish(&mut self) {
        self.expire(LONG_MS).await;
        let respawned = self.store().respawn(&self.queue, 10, 0).await.unwrap();
        self.judge.respawned(respawned);
        self.reserve().await;
        if let Some(leased) = self.deliveries.last().copied() {
            self.ack(OrderedCall::AckFirst, leased, 0).await;
        }
        self.reserve().await;
        self.judge.finished();
        self.judge.now_ms += LONG_MS;
        while let SweepOutcome::Done { more: true, .. } =
            self.store().sweep(self.bucket, TOKEN, 10).await.unwrap()
        {}
        let stats = self.store().stats(&self.queue).await.unwrap();
        assert_eq!(stats, tidegate_core::JobsByState::default());
    }
}

/// Queues in separate buckets.
async fn runs(store: &Store) -> Vec<OrderRun> {
    let (mut runs, mut used) = (Vec::new(), BTreeSet::new());
    for number in 0.. {
        let queue = QueueKey::try_from(format!("shop/orders-{number}").as_str()).unwrap();
        let bucket = store.bucket_of(&queue);
        if !used.insert(bucket) {
            continue;
        }
        let leased = store.lease_acquire(bucket, TOKEN, &[]).await.unwrap();
        assert_eq!(leased, LeaseOutcome::Ours);
        runs.push(OrderRun {
            store: store.clone(),
            bucket,
            queue,
            judge: OrderJudge::at(START),
            deliveries: Vec::new(),
            versions: 0,
            outcomes: BTreeMap::new(),
        });
        if runs.len() == PARALLEL {
            break;
        }
    }
    runs
}

/// All orders of this length, calls may be repeated.
fn orders(length: usize) -> Vec<Vec<OrderedCall>> {
    let mut orders = vec![Vec::new()];
    for _ in 0..length {
        let longer = orders.iter().flat_map(|order| {
            CALLS.iter().map(move |call| {
                let mut order: Vec<OrderedCall> = order.clone();
                order.push(*call);
                order
            })
        });
        orders = longer.collect();
    }
    orders
}

#[tokio::test]
async fn every_order_of_calls_about_a_key_keeps_the_rules() {
    let length = std::env::var("TIDEGATE_ORDER_LENGTH").ok();
    let length = length.map_or(LENGTH, |number| number.parse().unwrap());
    let redis = RedisOptions::new().start();
    let store = Store::connect(&StoreConfig::new(redis.url()))
        .await
        .unwrap();
    let mut runs = runs(&store).await;
    let all: Vec<_> = BEGINNINGS
        .iter()
        .zip([length, length - 1])
        .flat_map(|(beginning, length)| {
            let orders = orders(length).into_iter();
            orders.map(|order| (*beginning, order))
        })
        .collect();
    for (round, batch) in all.chunks(PARALLEL).enumerate() {
        let calls = runs.iter_mut().zip(batch);
        join_all(calls.map(|(run, (beginning, order))| run.checked(beginning, order))).await;
        if round % ROUNDS_PER_CHECK == 0 {
            consistency::check(&redis.url()).await;
        }
        let used = runs.iter_mut().take(batch.len());
        join_all(used.map(OrderRun::finish)).await;
    }
    consistency::check(&redis.url()).await;
    report(&runs, all.len());
}

impl OrderRun {
    async fn checked(&mut self, beginning: &[OrderedCall], order: &[OrderedCall]) {
        let shown = ShownOnPanic(beginning, order);
        self.run(beginning, order).await;
        self.check().await;
        drop(shown);
    }
}

/// Prints an order that fails.
struct ShownOnPanic<'a>(&'a [OrderedCall], &'a [OrderedCall]);

impl Drop for ShownOnPanic<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            println!(
                "one of the orders in progress: {:?}, then {:?}",
                self.0, self.1
            );
        }
    }
}

fn report(runs: &[OrderRun], orders: usize) {
    let mut outcomes: BTreeMap<&str, u64> = BTreeMap::new();
    for (outcome, times) in runs.iter().flat_map(|run| &run.outcomes) {
        *outcomes.entry(outcome).or_default() += times;
    }
    let calls: u64 = outcomes.values().sum();
    print_figure(&format!(
        "{orders} orders, {calls} calls, {} kinds of outcomes",
        outcomes.len()
    ));
    for (outcome, times) in &outcomes {
        println!("{outcome} {times} times");
    }
    for expected in [
        "AckAndRetain: Done",
        "AckFirst: Rerun",
        "AckFirst: Lost",
        "AckFirst: Gone",
        "BuryLast: Dead",
        "FailFirst: Retry",
        "FailFirst: Rerun",
        "FailFirst: Cancelled",
        "ReleaseFirst: Cancelled",
        "ReleaseLastForLater: Rerun",
        "CancelAsking: Requested",
        "CancelRevoking: Done",
        "CancelRevoking: AlreadyDone",
        "Replace: Revived",
        "Replace: Rerun",
        "Keep: Rerun",
        "Keep: Exists",
        "Promote: NotWaiting",
        "LeaseExpires: gone",
        "LeaseExpires: dead",
    ] {
        assert!(outcomes.contains_key(expected), "not seen: {expected}");
    }
}
