//! Queues that may have a limited number of running jobs. Polls are switched off: they could hide a missing doorbell.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tidegate_testkit::{
    NativeClient, QueueClient, Stack, connect_to_redis, eventually, print_figure,
};
use tokio::task::JoinHandle;
use tokio::time::sleep;

use crate::fixture::{EFFECTIVE_WITHIN, PATIENCE, admin, consumer, read_now};

const NO_POLLS: &str = "[waiters]\npoll_interval = \"60s\"";

async fn stack(apis: usize, pumps: usize) -> Stack {
    let stack = Stack::builder().apis(apis).pumps(pumps);
    stack.api_config(NO_POLLS).start().await
}

/// Limits the running jobs of a queue, in all processes.
async fn limit(stack: &Stack, apis: usize, queue: &QueueClient, most: Option<u64>) {
    let policy = json!({"max_running": most}).to_string();
    queue.patch_policy(stack.api(0), &policy).await;
    for api in 0..apis {
        read_now(stack.api(api)).await;
    }
}

/// Publishes so many jobs.
async fn publish(queue: &QueueClient, jobs: usize) {
    let bodies = vec!["1".to_owned(); jobs.min(50)];
    for _ in 0..jobs.div_ceil(50) {
        queue
            .publish_bulk(&bodies)
            .tries(1000)
            .send()
            .await
            .unwrap()
            .expect(201);
    }
}

/// What all consumers have done: the jobs that they hold, and how many are done.
#[derive(Default)]
struct WorkTally {
    held: AtomicI64,
    held_most: AtomicI64,
    done: AtomicUsize,
    is_over: AtomicBool,
    /// When the last job was received, in ms since the start, and the longest time between two of them.
    last_ms: AtomicI64,
    gap_most_ms: AtomicI64,
}

impl WorkTally {
    fn received(&self, jobs: usize, started: Instant) {
        let held = self.held.fetch_add(jobs as i64, Ordering::SeqCst) + jobs as i64;
        self.held_most.fetch_max(held, Ordering::SeqCst);
        let now_ms = started.elapsed().as_millis() as i64;
        let gap_ms = now_ms - self.last_ms.swap(now_ms, Ordering::SeqCst);
        self.gap_most_ms.fetch_max(gap_ms, Ordering::SeqCst);
    }

    /// Called before the request that ends the leases is sent.
    fn ending(&self, jobs: usize) {
        self.held.fetch_sub(jobs as i64, Ordering::SeqCst);
    }

    fn is_over(&self) -> bool {
        self.is_over.load(Ordering::SeqCst)
    }
}

/// Works until all is over: holds each job for a few ms, then acknowledges it; some jobs are given back, or fail,
/// first.
async fn native_worker(
    native: NativeClient,
    work: Arc<WorkTally>,
    number: usize,
    started: Instant,
) {
    let queues = match number % 3 {
        0 => json!(["empty", "q"]),
        _ => json!(["q"]),
    };
    let body = json!({"queues": queues, "max_jobs": 1 + number % 4, "wait": "1s", "lease": "10m"});
    for round in 0.. {
        let answer = native
            .call("POST", "/reserve", &body)
            .await
            .expect(200)
            .json();
        let jobs = answer["jobs"].as_array().unwrap();
        if jobs.is_empty() && work.is_over() {
            return;
        }
        if jobs.is_empty() {
            continue;
        }
        work.received(jobs.len(), started);
        sleep(Duration::from_millis(5 + (number % 3) as u64 * 5)).await;
        work.ending(jobs.len());
        let leases: Vec<&Value> = jobs.iter().map(|job| &job["lease"]).collect();
        match round % 7 {
            3 => drop(native.settle("release", &json!({"leases": leases})).await),
            5 => {
                let failed = leases
                    .iter()
                    .map(|lease| json!({"lease": lease, "error": "e", "retry_in": "0s"}));
                let failed: Vec<Value> = failed.collect();
                native.settle("fail", &json!({"leases": failed})).await;
            }
            _ => {
                native.settle("ack", &json!({"leases": leases})).await;
                work.done.fetch_add(jobs.len(), Ordering::SeqCst);
            }
        }
    }
}

async fn lmstfy_worker(queue: QueueClient, work: Arc<WorkTally>, number: usize, started: Instant) {
    loop {
        let consume = queue.consume().ttr_s(600).count(1 + number as u64 % 3);
        let jobs = consume.timeout_s(1).jobs().await;
        if jobs.is_empty() && work.is_over() {
            return;
        }
        if jobs.is_empty() {
            continue;
        }
        work.received(jobs.len(), started);
        sleep(Duration::from_millis(8)).await;
        for job in jobs {
            work.ending(1);
            queue.ack(&job.id).await;
            work.done.fetch_add(1, Ordering::SeqCst);
        }
    }
}

/// Looks at the number of leased jobs in Redis all the time. Returns the highest, and how often it has looked.
async fn watch_leases(url: String, work: Arc<WorkTally>) -> (u64, u64) {
    let client = redis::Client::open(url).unwrap();
    let mut connection = connect_to_redis(&client).await.unwrap();
    let mut all = redis::cmd("KEYS");
    let keys = all.arg("tg:*:q:*").query_async(&mut connection).await;
    let keys: Vec<String> = keys.unwrap();
    let (mut most, mut looks) = (0, 0);
    while !work.is_over() {
        let mut pipe = redis::pipe();
        for key in &keys {
            pipe.hget(key, "leased");
        }
        let leased = pipe.atomic().query_async(&mut connection).await;
        let leased: Vec<Option<u64>> = leased.unwrap();
        most = most.max(leased.iter().flatten().sum());
        looks += 1;
        sleep(Duration::from_millis(1)).await;
    }
    (most, looks)
}

/// Lets many consumers of two API processes work. Returns the highest number of leased jobs that Redis had or consumers
/// held.
async fn work_off(stack: &Stack, queue: &QueueClient, jobs: usize) -> u64 {
    let (work, started) = (Arc::new(WorkTally::default()), Instant::now());
    let watch = tokio::spawn(watch_leases(stack.redis.url(), Arc::clone(&work)));
    let mut workers: Vec<JoinHandle<()>> = Vec::new();
    for number in 0..16 {
        let (api, work) = (stack.api(number % 2), Arc::clone(&work));
        workers.push(if number < 10 {
            let native = NativeClient::new(api, queue.namespace()).await;
            tokio::spawn(native_worker(native, work, number, started))
        } else {
            let queue = queue.on_api(api).with_separate_connections();
            tokio::spawn(lmstfy_worker(queue, work, number, started))
        });
    }
    eventually("all jobs are done", PATIENCE, async || {
        match work.done.load(Ordering::SeqCst) {
            done if done >= jobs => Ok(()),
            done => Err(format!("{done} of {jobs}")),
        }
    })
    .await;
    let took = started.elapsed();
    work.is_over.store(true, Ordering::SeqCst);
    for worker in workers {
        worker.await.unwrap();
    }
    let (leased_most, looks) = watch.await.unwrap();
    let held_most = work.held_most.load(Ordering::SeqCst);
    let gap_ms = work.gap_most_ms.load(Ordering::SeqCst);
    print_figure(&format!(
        "{jobs} jobs in {took:.1?}; at most {leased_most} leased in {looks} looks, {held_most} held by consumers; longest \
         time without a delivery {gap_ms} ms"
    ));
    // A place that stays free until a poll would take 60 s.
    assert!(gap_ms < 10_000, "{gap_ms} ms without a delivery");
    leased_most.max(held_most as u64)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn many_consumers_of_two_apis_never_exceed_the_limit_and_use_every_place() {
    let stack = stack(2, 1).await;
    let queue = stack.queue("q").await;
    for (most, jobs) in [(1, 100), (5, 300)] {
        limit(&stack, 2, &queue, Some(most)).await;
        publish(&queue, jobs).await;
        assert_eq!(work_off(&stack, &queue, jobs).await, most);
    }
    stack.finish().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_lanes_of_a_queue_share_the_limit_of_running_jobs() {
    let stack = stack(2, 1).await;
    let queue = stack.queue("q").await;
    queue.set_lanes(stack.api(0), 4).await;
    // The admin port reads the table that the API uses.
    let path = format!("/v1/{}/queues/{}/lanes", queue.namespace(), queue.name());
    eventually("the lanes are known", EFFECTIVE_WITHIN, async || {
        let lanes = admin(stack.api(1), "GET", &path).await.expect(200).json();
        match lanes["used"].as_u64() {
            Some(4) => Ok(()),
            _ => Err(lanes),
        }
    })
    .await;
    // Each lane has at least one place.
    for (limit_of_queue, most) in [(8, 8), (1, 4)] {
        limit(&stack, 2, &queue, Some(limit_of_queue)).await;
        publish(&queue, 200).await;
        let leased = work_off(&stack, &queue, 200).await;
        assert!(leased <= most, "{leased} of {most}");
    }
    stack.finish().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_places_of_lost_workers_become_free_when_their_leases_expire() {
    let stack = stack(2, 1).await;
    let queue = stack.queue("q").await;
    limit(&stack, 2, &queue, Some(2)).await;
    publish(&queue, 50).await;
    let lost = queue.consume().ttr_s(2).count(2).jobs().await;
    assert_eq!(lost.len(), 2);
    let there = queue.on_api(stack.api(1));
    let waiting: Vec<_> = [&queue, &there, &queue, &there]
        .map(|queue| consumer(queue, 60))
        .into();
    stack.api(0).wait_for_waiting_consumers(2).await;
    stack.api(1).wait_for_waiting_consumers(2).await;
    assert!(queue.consume().count(5).job().await.is_none());
    let started = Instant::now();
    let is_served = || waiting.iter().filter(|task| task.is_finished()).count();
    eventually(
        "two consumers are served",
        PATIENCE,
        async || match is_served() {
            2 => Ok(()),
            served => Err(served),
        },
    )
    .await;
    assert!(started.elapsed() < Duration::from_secs(20), "by a poll");
    sleep(Duration::from_millis(300)).await;
    assert_eq!(is_served(), 2);
    assert_eq!(stack.totals().await.leased, 2);
    waiting.iter().for_each(JoinHandle::abort);
    stack.finish().await;
}

/// The process that is rung first was killed, with consumers that waited there, and with requests that held leases.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_killed_api_process_takes_no_place_with_it() {
    let stack = stack(2, 1).await;
    let queue = stack.queue("q").await;
    let there = queue.on_api(stack.api(1));
    limit(&stack, 2, &queue, Some(1)).await;
    publish(&queue, 50).await;
    let held = there.consume().ttr_s(600).job().await.unwrap();
    let killed = tokio::spawn({
        let queue = queue.with_separate_connections();
        async move { queue.consume().timeout_s(60).ttr_s(2).send().await }
    });
    stack.api(0).wait_for_waiting_consumers(1).await;
    let first = consumer(&there, 60);
    stack.api(1).wait_for_waiting_consumers(1).await;
    stack.api(0).kill();
    assert!(killed.await.unwrap().is_err());
    let started = Instant::now();
    there.ack(&held.id).await;
    let (_, at) = first.await.unwrap().unwrap();
    print_figure(&format!(
        "from the ack to the delivery {:.1?}",
        at - started
    ));
    assert!(at - started < Duration::from_secs(10));
    assert_eq!(stack.totals().await.leased, 1);
    // Killed again and again while consumers hold and wait for jobs: no place is lost.
    stack.api(0).restart().await;
    for _ in 0..3 {
        let tasks: Vec<_> = (0..4)
            .map(|_| {
                let queue = queue.with_separate_connections();
                tokio::spawn(async move { queue.consume().timeout_s(5).ttr_s(1).send().await })
            })
            .collect();
        stack.api(0).wait_for_waiting_consumers(4).await;
        stack.api(0).kill();
        for task in tasks {
            assert!(task.await.unwrap().is_err());
        }
        stack.api(0).restart().await;
    }
    stack.finish().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_limit_that_is_raised_or_removed_serves_consumers_that_wait() {
    let stack = stack(2, 0).await;
    let queue = stack.queue("q").await;
    let there = queue.on_api(stack.api(1));
    limit(&stack, 2, &queue, Some(1)).await;
    publish(&queue, 50).await;
    let held = queue.consume().ttr_s(600).job().await.unwrap();
    let mut waiting = vec![consumer(&queue, 60), consumer(&there, 60)];
    stack.api(0).wait_for_waiting_consumers(1).await;
    stack.api(1).wait_for_waiting_consumers(1).await;
    let finished = |waiting: &[JoinHandle<_>]| waiting.iter().filter(|it| it.is_finished()).count();
    // Raised at one API: the other one learns of it.
    for (most, served) in [(json!(2), 1), (json!(3), 2)] {
        let policy = json!({"max_running": most}).to_string();
        queue.patch_policy(stack.api(0), &policy).await;
        eventually("served", EFFECTIVE_WITHIN, async || {
            match finished(&waiting) {
                all if all == served => Ok(()),
                others => Err(others),
            }
        })
        .await;
    }
    // A lower one revokes nothing, and holds until so many leases have ended.
    limit(&stack, 2, &queue, Some(2)).await;
    assert_eq!(stack.totals().await.leased, 3);
    queue.ack(&held.id).await;
    assert!(there.consume().timeout_s(1).job().await.is_none());
    waiting = vec![consumer(&there, 60)];
    stack.api(1).wait_for_waiting_consumers(1).await;
    queue
        .patch_policy(stack.api(0), r#"{"max_running":null}"#)
        .await;
    eventually("served", EFFECTIVE_WITHIN, async || {
        match finished(&waiting) {
            1 => Ok(()),
            others => Err(others),
        }
    })
    .await;
    stack.finish().await;
}
