//! Several API processes whose consumers wait for one queue: each job wakes one of them, in turn.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use tidegate_testkit::{QueueClient, RawHttp, Stack, eventually, print_figure};

use crate::alone;

const PROCESSES: usize = 10;
const CONSUMERS_EACH: usize = 4;
/// Queues that all processes wait for beside it, unless `TIDEGATE_IDLE_QUEUES` says otherwise. Nearly each of the 256
/// buckets has some of them.
const IDLE_QUEUES: usize = 1000;
/// Queues of one consumer.
const QUEUES_EACH: usize = 100;
const JOBS: usize = 400;
/// Between two publishes.
const PAUSE: Duration = Duration::from_millis(10);
/// A loaded machine may have delayed a few jobs, whose next one then came to a queue that was not empty.
const RESERVES_MAX: f64 = 1.2 * JOBS as f64;

/// Consumes until the queue is closed. `delivered` counts the jobs.
async fn consume(
    stack: Arc<Stack>,
    process: usize,
    queue: QueueClient,
    delivered: Arc<AtomicUsize>,
) {
    let mut http = RawHttp::connect(stack.api(process).listen()).await;
    let token = [("X-Token".to_owned(), queue.token().to_owned())];
    let target = format!("{}?timeout=60&ttr=600", queue.path());
    loop {
        http.request("GET", &target, &token, b"").await;
        let Some(answer) = http.answer().await else {
            return;
        };
        if answer.status != 200 {
            return;
        }
        delivered.fetch_add(1, Ordering::Relaxed);
    }
}

/// The number of calls of a script by all processes.
async fn calls_of(stack: &Stack, script: &str) -> f64 {
    let label = format!("command=\"{script}\"");
    let mut sum = 0.0;
    for process in 0..PROCESSES {
        let api = stack.api(process);
        let calls = api.metric_with_label("infra_lmstfy_redis_qps", &label);
        sum += calls.await;
    }
    sum
}

fn idle_queues() -> usize {
    let wanted = std::env::var("TIDEGATE_IDLE_QUEUES").ok();
    wanted.map_or(IDLE_QUEUES, |number| number.parse().unwrap())
}

/// One consumer at each process for each hundred idle queues.
async fn wait_for_idle_queues(stack: &Stack, queue: &QueueClient) -> Vec<RawHttp> {
    let idle_consumers = idle_queues() / QUEUES_EACH;
    let token = [("X-Token".to_owned(), queue.token().to_owned())];
    let mut waiting = Vec::new();
    for process in 0..PROCESSES {
        for hundred in 0..idle_consumers {
            let names = (0..QUEUES_EACH).map(|number| format!("idle-{hundred}-{number}"));
            let names = names.collect::<Vec<_>>().join(",");
            let target = format!("/api/{}/{names}?timeout=600", queue.namespace());
            let mut http = RawHttp::connect(stack.api(process).listen()).await;
            http.request("GET", &target, &token, b"").await;
            waiting.push(http);
        }
        let consumers = CONSUMERS_EACH + idle_consumers;
        stack
            .api(process)
            .wait_for_waiting_consumers(consumers)
            .await;
    }
    waiting
}

/// Each process asks each bucket once in a poll interval, however many of its queues are waited for.
async fn idle_queues_cost_a_poll_a_bucket(stack: &Stack) {
    const POLLS_A_SECOND: f64 = 256.0 * PROCESSES as f64 / 5.0;
    // Each consumer has checked all its queues once.
    let mut before = f64::NAN;
    eventually("no more reserves", Duration::from_secs(60), async || {
        let reserves = calls_of(stack, "reserve").await;
        let is_quiet = reserves == std::mem::replace(&mut before, reserves);
        tokio::time::sleep(Duration::from_millis(300)).await;
        if is_quiet { Ok(()) } else { Err(reserves) }
    })
    .await;
    let begin = Instant::now();
    let polls = calls_of(stack, "poll").await;
    let reserves = calls_of(stack, "reserve").await;
    tokio::time::sleep(Duration::from_secs(6)).await;
    let seconds = begin.elapsed().as_secs_f64();
    let polls = (calls_of(stack, "poll").await - polls) / seconds;
    let reserves = (calls_of(stack, "reserve").await - reserves) / seconds;
    print_figure(&format!(
        "{} idle queues at {PROCESSES} processes: {polls:.0} polls and {reserves:.1} reserves a second",
        idle_queues()
    ));
    // A part of the next interval may have begun.
    assert!(polls <= POLLS_A_SECOND * 1.25, "{polls} polls a second");
    assert!(reserves < 1.0, "{reserves} reserves a second");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_job_wakes_one_process_and_all_have_their_turn() {
    let _alone = alone().await;
    all_have_their_turn(CONSUMERS_EACH, true).await;
}

/// A consumer that is the only one of its process registers it with the call that takes a job.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_job_costs_one_reserve_where_processes_have_one_consumer_each() {
    let _alone = alone().await;
    all_have_their_turn(1, false).await;
}

async fn all_have_their_turn(consumers_each: usize, beside_idle_queues: bool) {
    let stack = Arc::new(Stack::builder().pumps(0).apis(PROCESSES).start().await);
    let queue = stack.queue("q").await;
    let mut delivered = Vec::new();
    for process in 0..PROCESSES {
        let count = Arc::new(AtomicUsize::new(0));
        for _ in 0..consumers_each {
            let consuming = consume(
                Arc::clone(&stack),
                process,
                queue.clone(),
                Arc::clone(&count),
            );
            tokio::spawn(consuming);
        }
        let api = stack.api(process);
        api.wait_for_waiting_consumers(consumers_each).await;
        delivered.push(count);
    }
    let mut idle = Vec::new();
    if beside_idle_queues {
        idle.extend(wait_for_idle_queues(&stack, &queue).await);
        idle_queues_cost_a_poll_a_bucket(&stack).await;
    }
    let before = calls_of(&stack, "reserve").await;
    let mut wakes = Vec::new();
    let all = || -> Vec<usize> {
        let counts = delivered.iter();
        counts.map(|count| count.load(Ordering::Relaxed)).collect()
    };
    for job in 0..JOBS {
        let begin = Instant::now();
        queue.publish(job.to_string()).id().await;
        while all().iter().sum::<usize>() <= job {
            tokio::time::sleep(Duration::from_micros(200)).await;
            assert!(
                begin.elapsed() < Duration::from_secs(20),
                "job {job} did not come"
            );
        }
        wakes.push(begin.elapsed());
        tokio::time::sleep(PAUSE).await;
    }
    let made = calls_of(&stack, "reserve").await - before;
    wakes.sort();
    let shares = all();
    print_figure(&format!(
        "{JOBS} jobs to {consumers_each} consumers at each of {PROCESSES} processes: {:.2} reserves a job, shares {shares:?}, from publish to received p50 {:?}, p99 {:?}",
        made / JOBS as f64,
        wakes[JOBS / 2],
        wakes[JOBS * 99 / 100],
    ));
    assert!(made <= RESERVES_MAX, "{made} reserves for {JOBS} jobs");
    let fair = JOBS / PROCESSES;
    assert!(
        shares
            .iter()
            .all(|share| (fair * 8 / 10..=fair * 12 / 10).contains(share)),
        "{shares:?}"
    );
}
