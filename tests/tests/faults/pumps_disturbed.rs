//! Pumps are killed, share one name, or are paused beyond their leases, under load.

use std::sync::Arc;
use std::time::{Duration, Instant};
use tidegate_core::JobsByState;

use rand::RngExt;
use rand::rngs::StdRng;
use tidegate_testkit::{
    QueueClient, RedisOptions, Stack, eventually, eventually_unless_stalled, print_figure, random,
};

use crate::jobs::{draw, queues};
use crate::tracker::{JobHistory, Ledger};
use crate::workers::Workers;

const QUEUES: usize = 12;
const WORKERS: usize = 24;
const PUBLISHERS: usize = 4;
/// Short, so that jobs move again soon after a pump was killed.
pub(crate) const LEASE: &str = "500ms";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn killing_two_pumps_at_random_loses_and_duplicates_no_job() {
    let stack = Stack::builder()
        .redis(RedisOptions::new().always_synced())
        .pumps(2)
        .lease(LEASE)
        .start()
        .await;
    pass("pumps killed", &stack, 8_000, kill_at_random).await;
    stack.finish().await;
}

/// The lock is useless: both pumps hold it. Only the scripts keep jobs from moving twice.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_pumps_of_one_name_move_no_job_twice() {
    let stack = Stack::builder()
        .pumps(2)
        .lease(LEASE)
        .same_pump_name()
        .start()
        .await;
    for pump in [stack.pump(0), stack.pump(1)] {
        pump.wait_for_buckets(256).await;
    }
    pass("pumps of one name", &stack, 5_000, kill_at_random).await;
    stack.finish().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_pump_paused_beyond_its_lease_moves_no_job_twice() {
    let stack = Stack::builder().pumps(2).lease(LEASE).start().await;
    pass("pumps asleep", &stack, 5_000, sleep_at_random).await;
    stack.finish().await;
}

/// Kills one pump or both, and starts them again a little later.
pub(crate) async fn kill_at_random(stack: &Stack, random: &mut StdRng) {
    let both = random.random_bool(0.3);
    let first = random.random_range(0..2);
    let pumps = [stack.pump(first), stack.pump(1 - first)];
    let hit = &pumps[..if both { 2 } else { 1 }];
    for pump in hit {
        pump.kill();
    }
    pause(random, 0..600).await;
    for pump in hit {
        pump.restart().await;
    }
}

/// Pauses one pump for longer than its lease, and resumes it.
async fn sleep_at_random(stack: &Stack, random: &mut StdRng) {
    let pump = stack.pump(random.random_range(0..2));
    pump.pause();
    pause(random, 600..1500).await;
    pump.resume();
}

/// The times of faults are random: this does not wait for anything.
async fn pause(random: &mut StdRng, range_ms: std::ops::Range<u64>) {
    let pause = Duration::from_millis(random.random_range(range_ms));
    tokio::time::sleep(pause).await;
}

/// Publishes and consumes jobs while `disturb` is called repeatedly, and checks the history of each job.
pub(crate) async fn pass(
    test: &str,
    stack: &Stack,
    jobs: usize,
    disturb: impl AsyncFn(&Stack, &mut StdRng),
) {
    let begin = Instant::now();
    let mut random = random(test);
    let queues = queues(&stack.queue("first").await, QUEUES);
    let tracker = Arc::new(Ledger::new(jobs));
    let workers = Workers::start(test, WORKERS, &queues, &tracker);
    let batches = Arc::new(draw(&mut random, jobs, QUEUES));
    let publishers: Vec<_> = (0..PUBLISHERS)
        .map(|number| {
            let (queues, tracker) = (queues.clone(), Arc::clone(&tracker));
            let batches = Arc::clone(&batches);
            tokio::spawn(async move {
                for batch in batches.iter().skip(number).step_by(PUBLISHERS) {
                    tracker.announce(batch);
                    tracker.published(batch, batch.publish(&queues).await);
                }
            })
        })
        .collect();
    let mut disturbances = 0;
    let disturbing = async {
        // Until the longest delay and the longest series of leases have passed, or longer.
        while tracker.open() > 0 && begin.elapsed() < Duration::from_secs(60) {
            disturb(stack, &mut random).await;
            disturbances += 1;
            pause(&mut random, 200..900).await;
        }
    };
    disturbing.await;
    for publisher in publishers {
        publisher.await.unwrap();
    }
    let over = async || match tracker.open() {
        0 => Ok(()),
        open => Err(open),
    };
    let stalled = Duration::from_secs(30);
    eventually_unless_stalled("every job is acked or out of tries", stalled, over).await;
    workers.stop().await;
    let dead = tracker.judge();
    let buried = JobsByState {
        dead: dead.len() as u64,
        ..JobsByState::default()
    };
    let settled = async || match stack.totals().await {
        totals if totals == buried => Ok(()),
        totals => Err(format!("{totals:?}, expected {buried:?}")),
    };
    eventually("only dead jobs are left", Duration::from_secs(15), settled).await;
    check_dead(&queues, &dead).await;
    print_figure(&format!(
        "{test}: {jobs} jobs, {disturbances} disturbances, {} dead, {:?}",
        dead.len(),
        begin.elapsed()
    ));
}

/// The dead letters contain exactly these jobs.
async fn check_dead(queues: &[QueueClient], dead: &[JobHistory]) {
    for (number, queue) in queues.iter().enumerate() {
        let mut expected: Vec<&str> = dead
            .iter()
            .filter(|history| history.queue == number)
            .map(|history| history.id.as_str())
            .collect();
        assert_eq!(queue.dead_size().await, expected.len() as u64);
        assert_eq!(queue.respawn(1_000_000, 0).await, expected.len() as u64);
        let mut found = Vec::new();
        loop {
            let jobs = queue.consume().count(100).ttr_s(600).jobs().await;
            if jobs.is_empty() {
                break;
            }
            for job in &jobs {
                queue.ack(&job.id).await;
            }
            found.extend(jobs.into_iter().map(|job| job.id));
        }
        found.sort();
        expected.sort_unstable();
        assert_eq!(found, expected, "the dead of {}", queue.name());
    }
}
