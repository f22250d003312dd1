//! Units of rates: never more than the bucket has and gets, and none is lost that is given back.

use std::collections::VecDeque;

use rand::RngExt;
use rand::rngs::StdRng;
use redis::Commands;
use tidegate_core::{QueueKey, Rate};
use tidegate_store::{Inconsistency, NamespacedName, RateOwner, Store, TakenUnits};
use tidegate_testkit::random;

use crate::audit::audit;
use crate::fixture::{START, StoreFixture, fixture};

const STEPS: usize = 4000;

fn owner() -> RateOwner {
    RateOwner::Queue(QueueKey::try_from("shop/orders").unwrap())
}

const fn rate(jobs: u64, per_ms: u64) -> Rate {
    Rate { jobs, per_ms }
}

/// Calls at chosen times.
struct Bucket {
    store: Store,
    rate: Rate,
}

impl Bucket {
    fn new(f: &StoreFixture, rate: Rate) -> Self {
        let store = f.store.clone();
        Self { store, rate }
    }

    async fn take(&self, now_ms: u64, wanted: u64) -> TakenUnits {
        let store = self.store.at(now_ms);
        let owner = owner();
        let taking = store.take_units(&owner, self.rate, wanted);
        taking.await.unwrap()
    }

    async fn units(&self, now_ms: u64, wanted: u64) -> u64 {
        self.take(now_ms, wanted).await.units
    }

    async fn give_back(&self, now_ms: u64, taken: &TakenUnits, units: u64) {
        let store = self.store.at(now_ms);
        let owner = owner();
        let giving = store.give_units_back(&owner, self.rate, taken, units);
        giving.await.unwrap();
    }
}

#[tokio::test]
async fn a_full_bucket_has_all_units_and_fills_evenly() {
    let f = fixture().await;
    let bucket = Bucket::new(&f, rate(10, 1000));
    assert_eq!(bucket.units(START, 4).await, 4);
    let taken = bucket.take(START, 100).await;
    assert_eq!(
        (taken.units, taken.now_ms, taken.next_ms),
        (6, START, START + 100)
    );
    assert_eq!(bucket.units(START + 99, 1).await, 0);
    let next = bucket.take(START + 100, 5).await;
    assert_eq!((next.units, next.next_ms), (1, START + 200));
    assert_eq!(bucket.units(START + 450, 5).await, 3);
    let look = bucket.take(START + 450, 0).await;
    assert_eq!((look.units, look.next_ms), (0, START + 500));
    assert_eq!(bucket.units(START + 5000, 100).await, 10, "it overflows");
}

/// Who finds no unit asks again soon if units were just taken, which may be given back; else when the next one is due.
#[tokio::test]
async fn units_that_are_out_are_asked_for_soon() {
    let f = fixture().await;
    let bucket = Bucket::new(&f, rate(10, 10_000));
    let wait_ms = async |at_ms: u64| {
        let none = bucket.take(START + at_ms, 5).await;
        assert_eq!(none.units, 0);
        none.wait().as_millis()
    };
    assert_eq!(bucket.units(START, 10).await, 10);
    assert_eq!(wait_ms(0).await, 50);
    assert_eq!(wait_ms(49).await, 1);
    assert_eq!(wait_ms(50).await, 950);
    assert_eq!(wait_ms(990).await, 10);
    assert_eq!(bucket.units(START + 1000, 5).await, 1);
    assert_eq!(wait_ms(1010).await, 40);
}

#[tokio::test]
async fn units_that_are_given_back_can_be_taken_at_once() {
    let f = fixture().await;
    let bucket = Bucket::new(&f, rate(10, 1000));
    let first = bucket.take(START, 10).await;
    bucket.give_back(START, &first, 7).await;
    assert_eq!(bucket.units(START, 10).await, 7);
    // Of units that come back by themselves none is given back as well.
    let late = bucket.take(START + 500, 10).await;
    assert_eq!(late.units, 5);
    bucket.give_back(START + 800, &late, 5).await;
    assert_eq!(bucket.units(START + 800, 10).await, 5);
    bucket.give_back(START + 60_000, &late, 5).await;
    assert_eq!(bucket.units(START + 60_000, 20).await, 10);
}

/// What was taken, and how many of these units were used for deliveries.
struct Used {
    at_ms: u64,
    units: u64,
}

/// The units that were used leave a bucket of the rate at no time with less than none.
fn check(rate: Rate, used: &[Used]) {
    let mut in_use = 0.0;
    let mut last_ms = used[0].at_ms;
    for Used { at_ms, units } in used {
        let came_back = (at_ms - last_ms) as f64 * rate.jobs as f64 / rate.per_ms as f64;
        in_use = f64::max(0.0, in_use - came_back) + *units as f64;
        assert!(
            in_use <= rate.jobs as f64 + 1e-3,
            "{in_use} of {rate} at {at_ms}"
        );
        last_ms = *at_ms;
    }
}

struct RandomRun {
    bucket: Bucket,
    random: StdRng,
    now_ms: u64,
    /// By how much the clock of Redis is behind.
    behind_ms: u64,
    used: Vec<Used>,
    out: VecDeque<(usize, TakenUnits)>,
}

impl RandomRun {
    const fn clock_ms(&self) -> u64 {
        self.now_ms - self.behind_ms
    }

    async fn take(&mut self) {
        let wanted = self.random.random_range(1..=self.bucket.rate.jobs * 2);
        let taken = self.bucket.take(self.clock_ms(), wanted).await;
        assert!(taken.units <= wanted);
        if taken.units == 0 {
            return;
        }
        self.used.push(Used {
            at_ms: self.now_ms,
            units: taken.units,
        });
        self.out.push_back((self.used.len() - 1, taken));
    }

    async fn give_back(&mut self) {
        if self.out.is_empty() {
            return;
        }
        let index = self.random.random_range(0..self.out.len());
        let Some((taken_at, taken)) = self.out.remove(index) else {
            return;
        };
        let units = self.random.random_range(0..=taken.units);
        self.bucket.give_back(self.clock_ms(), &taken, units).await;
        self.used[taken_at].units -= units;
    }

    async fn run(mut self, sets_clock_back: bool) {
        let unit_ms = (self.bucket.rate.per_ms / self.bucket.rate.jobs).max(1);
        for _ in 0..STEPS {
            match self.random.random_range(0..10) {
                0..=3 => self.take().await,
                4..=6 => self.give_back().await,
                7 if sets_clock_back && self.random.random_range(0..10) == 0 => {
                    self.behind_ms += self.random.random_range(0..3 * self.bucket.rate.per_ms);
                }
                _ => self.now_ms += self.random.random_range(0..3 * unit_ms),
            }
        }
        check(self.bucket.rate, &self.used);
        assert!(self.used.len() > STEPS / 20, "the run takes units");
    }
}

/// Also while units are given back at any later time, and the clock of Redis is set back meanwhile.
#[tokio::test]
async fn never_more_units_are_used_than_the_rate_allows() {
    for rate in [
        rate(1, 1000),
        rate(3, 1000),
        rate(10, 100),
        rate(100, 60_000),
    ] {
        for sets_clock_back in [false, true] {
            let f = fixture().await;
            let run = RandomRun {
                bucket: Bucket::new(&f, rate),
                random: random(&format!("rates {rate}")),
                now_ms: START,
                behind_ms: 0,
                used: Vec::new(),
                out: VecDeque::new(),
            };
            run.run(sets_clock_back).await;
        }
    }
}

/// Consumers of several processes that wait for an empty queue must not slow down its next jobs.
#[tokio::test]
async fn units_that_are_out_while_others_come_and_go_are_not_charged_twice() {
    let f = fixture().await;
    let bucket = Bucket::new(&f, rate(100, 60_000));
    for step in 0..2000 {
        let now_ms = START + step * 20;
        let longer = bucket.take(now_ms, 8).await;
        let shorter = bucket.take(now_ms + 1, 8).await;
        assert_eq!((longer.units, shorter.units), (8, 8), "step {step}");
        bucket.give_back(now_ms + 18, &shorter, 8).await;
        bucket.give_back(now_ms + 19, &longer, 8).await;
    }
    let left = bucket.units(START + 2000 * 20, 1000).await;
    assert!(left >= 98, "{left} of 100");
}

#[tokio::test]
async fn a_unit_is_not_there_before_its_time_however_long_that_is() {
    let f = fixture().await;
    let daily = Bucket::new(&f, rate(1, 86_400_000));
    assert_eq!(daily.units(START, 1).await, 1);
    assert_eq!(daily.units(START + 86_399_950, 1).await, 0);
    assert_eq!(daily.units(START + 86_400_000, 1).await, 1);
}

#[tokio::test]
async fn units_that_many_calls_take_and_give_back_at_the_same_time_are_not_lost() {
    const CALLS: u64 = 5;
    let f = fixture().await;
    let bucket = Bucket::new(&f, rate(100, 60_000));
    let mut out = VecDeque::new();
    for step in 0..2000 {
        let now_ms = START + step * 20;
        out.push_back(bucket.take(now_ms, 8).await);
        if out.len() as u64 == CALLS {
            let first = out.pop_front().unwrap();
            assert_eq!(first.units, 8, "step {step}");
            bucket.give_back(now_ms, &first, 8).await;
        }
    }
    let now_ms = START + 2000 * 20;
    for taken in out {
        bucket.give_back(now_ms, &taken, 8).await;
    }
    let left = bucket.units(now_ms, 1000).await;
    assert!(left >= 98, "{left} of 100");
}

#[tokio::test]
async fn another_rate_is_in_effect_at_once() {
    let f = fixture().await;
    let slow = Bucket::new(&f, rate(1, 86_400_000));
    let fast = Bucket::new(&f, rate(10, 1000));
    assert_eq!(slow.units(START, 1).await, 1);
    let none = fast.take(START, 1).await;
    assert_eq!((none.units, none.next_ms), (0, START + 100));
    assert_eq!(fast.units(START + 1000, 20).await, 10);
    assert_eq!(slow.units(START + 1000, 1).await, 0);
}

#[tokio::test]
async fn queues_and_limits_have_separate_units_which_an_audit_knows() {
    let f = fixture().await;
    let limit = RateOwner::Limit(NamespacedName::try_from("shop/orders").unwrap());
    let rate = rate(2, 1000);
    for owner in [owner(), limit] {
        let taken = f.store.take_units(&owner, rate, 5).await.unwrap();
        assert_eq!(taken.units, 2);
    }
    let mut connection = f.connection();
    for key in [
        "tg:0:{8209}:rate:shop/orders",
        "tg:0:{8209}:limit:shop/orders",
    ] {
        let left_ms: i64 = connection.pttl(key).unwrap();
        assert!((1..=62_000).contains(&left_ms), "{key}: {left_ms}");
    }
    let (_, mut found) = audit(&f, false).await;
    found.retain(|it| !matches!(it.defect, Inconsistency::OrphanedLock { .. }));
    assert_eq!(found, []);
}

#[tokio::test]
async fn damaged_units_count_as_a_full_bucket() {
    let f = fixture().await;
    let bucket = Bucket::new(&f, rate(5, 1000));
    let taken = bucket.take(START, 5).await;
    let mut connection = f.connection();
    let () = connection
        .set("tg:0:{8209}:rate:shop/orders", "1 2")
        .unwrap();
    bucket.give_back(START, &taken, 5).await;
    assert_eq!(bucket.units(START, 9).await, 5);
}
