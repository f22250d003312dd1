//! The data structure against a sorted map, with random operations.

use std::collections::BTreeMap;

use proptest::prelude::*;
use tidegate_wheel::{TimerKey, TimingWheel};

#[derive(Debug, Clone)]
enum WheelOperation {
    /// Inserts a timer this many ticks ahead.
    Insert(u64),
    /// Cancels one of the timers so far, expired or not.
    Cancel(prop::sample::Index),
    /// Moves on by this many ticks, with this many steps a call.
    Advance(u64, usize),
}

fn ticks() -> impl Strategy<Value = u64> {
    prop_oneof![
        4 => 0..200_u64,
        2 => 0..20_000_u64,
        1 => 0..1_u64 << 40,
        // Multiples of the width of a slot.
        1 => (0..5_u32).prop_map(|level| 64_u64.pow(level)),
    ]
}

fn operations() -> impl Strategy<Value = Vec<WheelOperation>> {
    let operation = prop_oneof![
        4 => ticks().prop_map(WheelOperation::Insert),
        1 => any::<prop::sample::Index>().prop_map(WheelOperation::Cancel),
        2 => (ticks(), 1..20_usize).prop_map(|(ticks, steps)| WheelOperation::Advance(ticks, steps)),
    ];
    prop::collection::vec(operation, 1..200)
}

/// Timers by due time and number.
#[derive(Default)]
struct SortedTimers {
    now: u64,
    timers: BTreeMap<(u64, usize), ()>,
    keys: Vec<(TimerKey, u64)>,
}

impl SortedTimers {
    fn expire(&mut self, to: u64) -> Vec<(u64, usize)> {
        self.now = self.now.max(to);
        let later = self.timers.split_off(&(self.now + 1, 0));
        let expired = std::mem::replace(&mut self.timers, later);
        expired.into_keys().collect()
    }
}

fn run(operations: Vec<WheelOperation>) {
    let (mut wheel, mut model) = (TimingWheel::new(), SortedTimers::default());
    for operation in operations {
        match operation {
            WheelOperation::Insert(ahead) => {
                let (due, number) = (model.now + ahead, model.keys.len());
                model.keys.push((wheel.insert(due, number), due));
                model.timers.insert((due, number), ());
            }
            WheelOperation::Cancel(which) if !model.keys.is_empty() => {
                let number = which.index(model.keys.len());
                let (key, due) = model.keys[number];
                let was_there = model.timers.remove(&(due, number)).is_some();
                assert_eq!(wheel.cancel(key), was_there.then_some(number));
            }
            WheelOperation::Cancel(_) => {}
            WheelOperation::Advance(ticks, steps) => {
                let to = model.now + ticks;
                let mut expired = Vec::new();
                while !wheel.advance(to, steps, &mut expired) {
                    let next = wheel.next_tick().expect("it is not done");
                    assert!(next <= to, "{next} is after {to}");
                }
                assert!(expired.is_sorted_by_key(|(due, _)| *due), "{expired:?}");
                expired.sort_unstable();
                assert_eq!(expired, model.expire(to));
            }
        }
        assert_eq!(wheel.len(), model.timers.len());
        let first = model.timers.first_key_value().map(|((due, _), ())| *due);
        match (wheel.next_tick(), first) {
            (None, None) => {}
            (Some(next), Some(first)) => {
                assert!(next <= first && next >= model.now, "{next} {first}")
            }
            (next, first) => panic!("{next:?} {first:?}"),
        }
    }
}

proptest! {
    // A failure prints its operations.
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn it_expires_what_a_sorted_map_expires(operations in operations()) {
        run(operations);
    }
}

#[test]
fn it_spans_all_ticks() {
    let mut wheel = TimingWheel::new();
    let dues = [0, 1, 63, 64, 4095, 4096, 1 << 42, u64::MAX - 1, u64::MAX];
    for due in dues {
        wheel.insert(due, due);
    }
    let mut expired = Vec::new();
    assert!(wheel.advance(u64::MAX, usize::MAX, &mut expired));
    assert_eq!(expired, dues.map(|due| (due, due)));
    assert!(wheel.is_empty());
}

#[test]
fn timers_of_the_past_expire_at_once() {
    let mut wheel = TimingWheel::new();
    let mut expired = Vec::new();
    wheel.advance(1000, 1, &mut expired);
    wheel.insert(10, "late");
    assert_eq!(wheel.next_tick(), Some(1000));
    wheel.advance(1000, 1, &mut expired);
    assert_eq!(expired, [(1000, "late")]);
}

#[test]
fn a_key_is_not_used_again() {
    let mut wheel = TimingWheel::new();
    let first = wheel.insert(10, "first");
    assert_eq!(wheel.cancel(first), Some("first"));
    let second = wheel.insert(10, "second");
    assert_eq!(wheel.cancel(first), None);
    assert_eq!(wheel.cancel(second), Some("second"));
}

/// A slot of a higher level is moved down in several calls; timers of it may be cancelled between them.
#[test]
fn timers_are_cancelled_while_their_slot_moves_down() {
    let mut wheel = TimingWheel::new();
    let keys: Vec<_> = (0..100)
        .map(|number| wheel.insert(4096 + number % 50, number))
        .collect();
    let mut expired = Vec::new();
    assert!(!wheel.advance(4096, 10, &mut expired));
    for (number, key) in keys
        .iter()
        .enumerate()
        .filter(|(number, _)| number % 2 == 0)
    {
        assert_eq!(wheel.cancel(*key), Some(number as u64));
    }
    while !wheel.advance(5000, 10, &mut expired) {}
    assert_eq!(expired.len(), 50);
    assert!(
        expired
            .iter()
            .all(|(due, number)| *due == 4096 + number % 50 && number % 2 == 1)
    );
}
