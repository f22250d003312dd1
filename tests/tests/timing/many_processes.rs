//! Several API processes whose consumers wait for one queue: each job wakes one of them, in turn.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use tidegate_testkit::{QueueClient, RawHttp, Stack, print_figure};

use crate::alone;

const PROCESSES: usize = 10;
const CONSUMERS_EACH: usize = 4;
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

async fn reserves(stack: &Stack) -> f64 {
    let mut sum = 0.0;
    for process in 0..PROCESSES {
        let api = stack.api(process);
        let label = "command=\"reserve\"";
        sum += api.metric_with_label("infra_lmstfy_redis_qps", label).await;
    }
    sum
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_job_wakes_one_process_and_all_have_their_turn() {
    let _alone = alone().await;
    let stack = Arc::new(Stack::builder().pumps(0).apis(PROCESSES).start().await);
    let queue = stack.queue("q").await;
    let mut delivered = Vec::new();
    for process in 0..PROCESSES {
        let count = Arc::new(AtomicUsize::new(0));
        for _ in 0..CONSUMERS_EACH {
            let consuming = consume(
                Arc::clone(&stack),
                process,
                queue.clone(),
                Arc::clone(&count),
            );
            tokio::spawn(consuming);
        }
        let api = stack.api(process);
        api.wait_for_waiting_consumers(CONSUMERS_EACH).await;
        delivered.push(count);
    }
    let before = reserves(&stack).await;
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
    let made = reserves(&stack).await - before;
    wakes.sort();
    let shares = all();
    print_figure(&format!(
        "{JOBS} jobs to consumers at {PROCESSES} processes: {:.2} reserves a job, shares {shares:?}, from publish to received p50 {:?}, p99 {:?}",
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
