//! Compares a million timers in the wheel, in tokio-util's `DelayQueue`, and in a `BinaryHeap` whose cancelled entries
//! stay.
//!
//!     cargo bench -p tidegate-wheel --bench timers
//!
//! Each round measures all three, in turns, with the same random due times within an hour. Figures are ns for one
//! timer: median and range of the rounds.

#![allow(clippy::print_stdout, reason = "a bench prints its figures")]

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::future::poll_fn;
use std::hint::black_box;
use std::time::{Duration, Instant};

use rand::rngs::StdRng;
use rand::seq::SliceRandom;
use rand::{RngExt, SeedableRng};
use tidegate_wheel::TimingWheel;
use tokio_util::time::DelayQueue;

const TIMERS: usize = 1_000_000;
/// As a test, which is called without `--bench`, it only shows that it runs.
const TEST_TIMERS: usize = 1_000;
const HOUR_MS: u64 = 3_600_000;
const ROUNDS: u64 = 7;

/// ns for a timer.
struct Costs {
    insert: f64,
    cancel: f64,
    /// `None` = not measured: a `DelayQueue` has the clock of Tokio.
    expire: Option<f64>,
}

struct Workload {
    due_ms: Vec<u64>,
    /// The order in which half of the timers are cancelled.
    cancelled: Vec<usize>,
}

fn main() {
    let is_test = !std::env::args().any(|it| it == "--bench");
    let timers = if is_test { TEST_TIMERS } else { TIMERS };
    let mut rounds = Vec::new();
    for seed in 0..ROUNDS {
        let workload = Workload::new(timers, seed);
        rounds.push([wheel(&workload), delay_queue(&workload), heap(&workload)]);
    }
    println!("{timers} timers within an hour, ns for each: median (min to max) of {ROUNDS} rounds");
    for (place, name) in ["TimingWheel", "DelayQueue", "BinaryHeap"]
        .iter()
        .enumerate()
    {
        let of = |cost: fn(&Costs) -> Option<f64>| {
            let costs: Vec<f64> = rounds
                .iter()
                .filter_map(|round| cost(&round[place]))
                .collect();
            summary(costs)
        };
        let (insert, cancel) = (of(|it| Some(it.insert)), of(|it| Some(it.cancel)));
        println!(
            "{name:12} insert {insert}  cancel {cancel}  expire {}",
            of(|it| it.expire)
        );
    }
}

impl Workload {
    fn new(timers: usize, seed: u64) -> Self {
        let mut random = StdRng::seed_from_u64(seed);
        let due_ms = (0..timers)
            .map(|_| random.random_range(1..HOUR_MS))
            .collect();
        let mut cancelled: Vec<usize> = (0..timers).collect();
        cancelled.shuffle(&mut random);
        cancelled.truncate(timers / 2);
        Self { due_ms, cancelled }
    }

    fn expiring(&self) -> usize {
        self.due_ms.len() - self.cancelled.len()
    }
}

fn wheel(workload: &Workload) -> Costs {
    let mut wheel = TimingWheel::new();
    let mut keys = Vec::with_capacity(workload.due_ms.len());
    let insert = measure(workload.due_ms.len(), || {
        for (number, due) in workload.due_ms.iter().enumerate() {
            keys.push(wheel.insert(*due, number));
        }
    });
    let cancel = measure(workload.cancelled.len(), || {
        for number in &workload.cancelled {
            black_box(wheel.cancel(keys[*number]));
        }
    });
    let mut expired = Vec::with_capacity(workload.due_ms.len());
    let expire = measure(workload.expiring(), || {
        while let Some(tick) = wheel.next_tick() {
            wheel.advance(tick, usize::MAX, &mut expired);
        }
    });
    assert_eq!(expired.len(), workload.expiring());
    Costs {
        insert,
        cancel,
        expire: Some(expire),
    }
}

fn delay_queue(workload: &Workload) -> Costs {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .build();
    runtime.expect("a runtime starts").block_on(async {
        let mut queue = DelayQueue::new();
        let mut keys = Vec::with_capacity(workload.due_ms.len());
        let insert = measure(workload.due_ms.len(), || {
            for (number, due) in workload.due_ms.iter().enumerate() {
                // An hour later, so that none expires meanwhile.
                keys.push(queue.insert(number, Duration::from_millis(HOUR_MS + due)));
            }
        });
        let cancel = measure(workload.cancelled.len(), || {
            for number in &workload.cancelled {
                black_box(queue.remove(&keys[*number]));
            }
        });
        // It must be polled at least once to be a queue of timers.
        poll_fn(|context| {
            let _ = queue.poll_expired(context);
            std::task::Poll::Ready(())
        })
        .await;
        Costs {
            insert,
            cancel,
            expire: None,
        }
    })
}

fn heap(workload: &Workload) -> Costs {
    let mut heap = BinaryHeap::new();
    let mut is_cancelled = vec![false; workload.due_ms.len()];
    let insert = measure(workload.due_ms.len(), || {
        for (number, due) in workload.due_ms.iter().enumerate() {
            heap.push(Reverse((*due, number)));
        }
    });
    let cancel = measure(workload.cancelled.len(), || {
        for number in &workload.cancelled {
            is_cancelled[*number] = true;
        }
    });
    let mut expired = Vec::with_capacity(workload.due_ms.len());
    let expire = measure(workload.expiring(), || {
        while let Some(Reverse((due, number))) = heap.pop() {
            if !is_cancelled[number] {
                expired.push((due, number));
            }
        }
    });
    assert_eq!(expired.len(), workload.expiring());
    Costs {
        insert,
        cancel,
        expire: Some(expire),
    }
}

fn measure(timers: usize, work: impl FnOnce()) -> f64 {
    let began = Instant::now();
    work();
    began.elapsed().as_nanos() as f64 / timers as f64
}

fn summary(mut costs: Vec<f64>) -> String {
    costs.sort_by(f64::total_cmp);
    match costs.as_slice() {
        [] => "-".to_owned(),
        [min, .., max] => format!("{:.0} ({min:.0} to {max:.0})", costs[costs.len() / 2]),
        [one] => format!("{one:.0}"),
    }
}
