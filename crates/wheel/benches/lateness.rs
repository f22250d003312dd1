//! Measures how late a million tasks start, with slow tasks among them.
//!
//!     cargo bench -p tidegate-wheel --bench lateness
//!
//! The tasks are due at random within a minute; one in ten thousand takes 50 ms. Lateness is the time from the
//! instant that was asked for to the start of the run, so it includes the rounding to ticks.

#![allow(clippy::print_stdout, reason = "a bench prints its figures")]

use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use serde::{Deserialize, Serialize};
use tidegate_wheel::{TimedTask, Wheel};

/// How many tasks, and when they are due.
#[derive(Clone, Copy)]
struct TimerLoad {
    tasks: u64,
    /// The first task is due when all are scheduled.
    scheduling: Duration,
    span: Duration,
}

const LOAD: TimerLoad = TimerLoad {
    tasks: 1_000_000,
    scheduling: Duration::from_secs(10),
    span: Duration::from_secs(60),
};
/// As a test, which is called without `--bench`, it only shows that it runs.
const TEST_LOAD: TimerLoad = TimerLoad {
    tasks: 1_000,
    scheduling: Duration::from_secs(1),
    span: Duration::from_millis(500),
};
const SLOW: u64 = 10_000;

#[derive(Serialize, Deserialize)]
struct Measured {
    number: u64,
    due_us: u64,
}

impl TimedTask for Measured {
    const TYPE: &'static str = "measured";
}

fn main() {
    let runtime = tokio::runtime::Runtime::new().expect("a runtime starts");
    let load = if std::env::args().any(|it| it == "--bench") {
        LOAD
    } else {
        TEST_LOAD
    };
    for tick in [1, 10] {
        let mut lateness = runtime.block_on(run(load, Duration::from_millis(tick)));
        lateness.sort_unstable();
        let at =
            |share: f64| lateness[(share * (lateness.len() - 1) as f64) as usize] as f64 / 1000.0;
        println!(
            "tick {tick:2} ms: {} tasks, lateness p50 {:.2} ms, p99 {:.2} ms, max {:.2} ms",
            lateness.len(),
            at(0.5),
            at(0.99),
            at(1.0)
        );
    }
}

/// Returns how late each task started, in µs.
async fn run(load: TimerLoad, tick: Duration) -> Vec<u64> {
    let lateness = Arc::new(Mutex::new(Vec::with_capacity(load.tasks as usize)));
    let started = Instant::now();
    let seen = Arc::clone(&lateness);
    let executor = move |task: Measured| {
        let now_us = started.elapsed().as_micros() as u64;
        let late_us = now_us.checked_sub(task.due_us);
        seen.lock().push(late_us.expect("no task is early"));
        async move {
            if task.number.is_multiple_of(SLOW) {
                tokio::time::sleep(Duration::from_millis(50)).await;
            }
        }
    };
    let wheel = Wheel::builder()
        .tick(tick)
        .concurrency(256)
        .executor(executor);
    let wheel = wheel.start().await.expect("the wheel starts");
    let mut random = StdRng::seed_from_u64(1);
    for number in 0..load.tasks {
        let due = load.scheduling
            + Duration::from_micros(random.random_range(0..load.span.as_micros() as u64));
        let due_us = due.as_micros() as u64;
        let task = Measured { number, due_us };
        let delay = due.saturating_sub(started.elapsed());
        wheel.schedule(task, delay).await.expect("it is scheduled");
    }
    let took = started.elapsed();
    assert!(took < load.scheduling, "scheduling took {took:?}");
    let all_started = async {
        while (lateness.lock().len() as u64) < load.tasks {
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    };
    let limit = load.scheduling + load.span + Duration::from_secs(60);
    let all_started = tokio::time::timeout(limit, all_started).await;
    all_started.expect("each task starts");
    wheel.shutdown().await.expect("the wheel stops");
    let lateness = std::mem::take(&mut *lateness.lock());
    assert_eq!(lateness.len() as u64, load.tasks);
    lateness
}
