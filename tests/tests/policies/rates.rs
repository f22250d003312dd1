//! Queues that deliver a limited number of jobs in a time. Polls are switched off: they could hide a missing timer.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tidegate_testkit::{NativeClient, QueueClient, Stack, eventually, print_figure};
use tokio::task::JoinHandle;
use tokio::time::sleep;

use crate::fixture::{PATIENCE, admin, consumer, read_now};

const NO_POLLS: &str = "[waiters]\npoll_interval = \"60s\"";

/// The jobs of a full bucket, and the units that come each second.
#[derive(Clone, Copy)]
struct Expected {
    burst: usize,
    per_second: usize,
}

async fn stack(apis: usize, pumps: usize) -> Stack {
    let stack = Stack::builder().apis(apis).pumps(pumps);
    stack.api_config(NO_POLLS).start().await
}

/// Changes the policy of a queue, in both processes.
async fn set(stack: &Stack, apis: usize, queue: &QueueClient, policy: Value) {
    queue.patch_policy(stack.api(0), &policy.to_string()).await;
    for api in 0..apis {
        read_now(stack.api(api)).await;
    }
}

async fn set_limit(stack: &Stack, queue: &QueueClient, name: &str, rate: Value) {
    let operator = NativeClient::operator(stack.api(0), queue.namespace());
    let path = format!("/limits/{name}");
    let answer = operator.call("PUT", &path, &rate).await;
    assert!(answer.status < 300, "{answer:?}");
}

async fn publish(queue: &QueueClient, jobs: usize) {
    let bodies: Vec<String> = (0..jobs).map(|number| number.to_string()).collect();
    for bodies in bodies.chunks(50) {
        let publishing = queue.publish_bulk(bodies).tries(1000);
        publishing.send().await.unwrap().expect(201);
    }
}

/// The jobs that consumers have received: id, and when.
#[derive(Default)]
struct Received {
    jobs: Mutex<Vec<(String, Duration)>>,
    is_over: AtomicBool,
}

impl Received {
    fn add(&self, name: String, started: Instant) {
        self.jobs.lock().unwrap().push((name, started.elapsed()));
    }

    /// Waits until so many jobs were received, and checks that none came twice, nor earlier than the rate allows.
    async fn check(&self, jobs: usize, expected: Expected) {
        let patience = PATIENCE + Duration::from_secs((jobs / expected.per_second) as u64);
        eventually("all jobs are delivered", patience, async || {
            match self.jobs.lock().unwrap().len() {
                received if received >= jobs => Ok(()),
                received => Err(format!("{received} of {jobs}")),
            }
        })
        .await;
        self.is_over.store(true, Ordering::SeqCst);
        let received = self.jobs.lock().unwrap();
        let mut names: Vec<&String> = received.iter().map(|(name, _)| name).collect();
        names.sort_unstable();
        names.dedup();
        assert_eq!((received.len(), names.len()), (jobs, jobs));
        // Since the bucket was not less than empty before the first job was published.
        let mut times: Vec<Duration> = received.iter().map(|(_, at)| *at).collect();
        times.sort_unstable();
        for (number, at) in (1..).zip(&times) {
            let units = expected.burst as f64 + at.as_secs_f64() * expected.per_second as f64;
            assert!(
                f64::from(number) <= units + 1.0,
                "{number} jobs after {at:?}"
            );
        }
        let took = times[jobs - 1];
        let due_s = |number: usize| {
            (number + 1).saturating_sub(expected.burst) as f64 / expected.per_second as f64
        };
        // Of the jobs behind the burst, since the first one came.
        let late = (expected.burst..jobs).map(|number| {
            let since_first = times[number].saturating_sub(times[0]).as_secs_f64();
            (since_first - due_s(number)).max(0.0) * 1000.0
        });
        let mut late: Vec<f64> = late.collect();
        late.sort_unstable_by(f64::total_cmp);
        print_figure(&format!(
            "{jobs} jobs in {took:.2?}, of which the last was due after {:.2} s; late after the burst: p50 {:.1} ms, p99 {:.1} ms",
            due_s(jobs - 1),
            late.get(late.len() / 2).copied().unwrap_or_default(),
            late.get(late.len() * 99 / 100).copied().unwrap_or_default()
        ));
    }
}

async fn native_consumer(
    native: NativeClient,
    queues: Value,
    all: Arc<Received>,
    started: Instant,
) {
    let body = json!({"queues": queues, "max_jobs": 20, "wait": "2s", "lease": "10m"});
    while !all.is_over.load(Ordering::SeqCst) {
        let answer = native.call("POST", "/reserve", &body).await.expect(200);
        let jobs = answer.json()["jobs"].clone();
        let mut leases = Vec::new();
        for job in jobs.as_array().unwrap() {
            all.add(job["id"].as_str().unwrap().to_owned(), started);
            leases.push(&job["lease"]);
        }
        if !leases.is_empty() {
            native.settle("ack", &json!({ "leases": leases })).await;
        }
    }
}

async fn lmstfy_consumer(queue: QueueClient, all: Arc<Received>, started: Instant) {
    while !all.is_over.load(Ordering::SeqCst) {
        let consume = queue.consume().ttr_s(600).timeout_s(2).count(2);
        for job in consume.jobs().await {
            all.add(job.id.clone(), started);
            queue.ack(&job.id).await;
        }
    }
}

/// Lets ten consumers, spread over all APIs, take all jobs of these queues.
async fn consume_all(stack: &Stack, queues: &[&QueueClient], jobs: usize, expected: Expected) {
    let (all, started) = (Arc::new(Received::default()), Instant::now());
    let names: Vec<&str> = queues.iter().map(|queue| queue.name()).collect();
    let mut consumers: Vec<JoinHandle<()>> = Vec::new();
    for number in 0..10 {
        let (api, all) = (stack.api(number % stack.apis()), Arc::clone(&all));
        consumers.push(if number < 6 {
            let native = NativeClient::new(api, queues[0].namespace()).await;
            tokio::spawn(native_consumer(native, json!(names), all, started))
        } else {
            let queue = queues[number % queues.len()].on_api(api);
            tokio::spawn(lmstfy_consumer(
                queue.with_separate_connections(),
                all,
                started,
            ))
        });
    }
    all.check(jobs, expected).await;
    for consumer in consumers {
        consumer.await.unwrap();
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn ten_consumers_of_two_apis_never_exceed_a_rate_and_get_all_jobs() {
    let stack = stack(2, 0).await;
    let queue = stack.queue("q").await;
    let rate = json!({"rate": {"jobs": 20, "per": "1s"}});
    set(&stack, 2, &queue, rate).await;
    publish(&queue, 80).await;
    let expected = Expected {
        burst: 20,
        per_second: 20,
    };
    consume_all(&stack, &[&queue], 80, expected).await;
    stack.finish().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn ten_processes_never_exceed_a_rate_together() {
    let rate: usize = number_of("TIDEGATE_RATE", 100);
    let seconds: usize = number_of("TIDEGATE_RATE_SECONDS", 4);
    let stack = stack(10, 0).await;
    let queue = stack.queue("q").await;
    let policy = json!({"rate": {"jobs": rate, "per": "1s"}});
    set(&stack, 10, &queue, policy).await;
    let jobs = rate * (seconds + 1);
    publish(&queue, jobs).await;
    let expected = Expected {
        burst: rate,
        per_second: rate,
    };
    consume_all(&stack, &[&queue], jobs, expected).await;
    stack.finish().await;
}

/// The number in an environment variable, for runs that are longer than the usual one.
fn number_of(variable: &str, usual: usize) -> usize {
    let wanted = std::env::var(variable).ok();
    wanted.map_or(usual, |number| number.parse().unwrap())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_rate_of_a_queue_is_one_for_all_its_lanes() {
    let stack = stack(2, 0).await;
    let queue = stack.queue("q").await;
    queue.set_lanes(stack.api(0), 4).await;
    let rate = json!({"rate": {"jobs": 10, "per": "250ms"}});
    set(&stack, 2, &queue, rate).await;
    publish(&queue, 130).await;
    let expected = Expected {
        burst: 10,
        per_second: 40,
    };
    consume_all(&stack, &[&queue], 130, expected).await;
    stack.finish().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn queues_that_name_a_limit_share_it() {
    let stack = stack(2, 0).await;
    let one = stack.queue("one").await;
    let other = one.sibling("other");
    set_limit(&stack, &one, "smtp", json!({"jobs": 10, "per": "500ms"})).await;
    set(&stack, 2, &one, json!({"limit": "smtp"})).await;
    // It has a rate besides, which is not reached.
    let both = json!({"limit": "smtp", "rate": {"jobs": 1000}});
    set(&stack, 2, &other, both).await;
    publish(&one, 35).await;
    publish(&other, 35).await;
    let expected = Expected {
        burst: 10,
        per_second: 20,
    };
    consume_all(&stack, &[&one, &other], 70, expected).await;
    stack.finish().await;
}

/// Neither a poll nor the doorbells of other jobs end the wait.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_consumer_that_waits_gets_its_job_when_the_next_unit_is_due() {
    const PER: Duration = Duration::from_secs(2);
    let stack = stack(1, 0).await;
    let queue = stack.queue("q").await;
    set(&stack, 1, &queue, json!({"rate": {"jobs": 1, "per": "2s"}})).await;
    let started = Instant::now();
    publish(&queue, 2).await;
    assert_eq!(queue.consume().ttr_s(600).job().await.unwrap().text(), "0");
    let waiting = consumer(&queue, 60);
    for _ in 0..10 {
        publish(&queue, 1).await;
        sleep(Duration::from_millis(50)).await;
        assert!(queue.consume().ttr_s(600).job().await.is_none());
    }
    let (text, received_at) = waiting.await.unwrap().unwrap();
    let took = received_at.duration_since(started);
    assert_eq!(text, "1");
    assert!(took >= PER, "{took:?}");
    print_figure(&format!(
        "the unit was used at most {:?} after it was due",
        took - PER
    ));
    assert!(took < 10 * PER, "{took:?}");
    // One call for each of the two jobs, at most two more for each hold.
    let api = stack.api(0);
    let command = "command=\"rate_take\"";
    let calls = api
        .metric_with_label("infra_lmstfy_redis_qps", command)
        .await;
    assert!(calls <= 6.0, "{calls}");
    let labels = "queue=\"q\"";
    let holds = api
        .metric_with_label("tidegate_queue_rate_holds_total", labels)
        .await;
    assert!(holds >= 1.0, "{holds}");
    stack.finish().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn consumers_of_an_empty_queue_use_up_no_units() {
    let stack = stack(2, 0).await;
    let queue = stack.queue("q").await;
    let rate = json!({"rate": {"jobs": 10, "per": "24h"}});
    set(&stack, 2, &queue, rate).await;
    let there = queue.on_api(stack.api(1));
    for _ in 0..20 {
        let looks = [&queue, &there].map(|queue| queue.consume().count(10).jobs());
        for jobs in futures_util::future::join_all(looks).await {
            assert!(jobs.is_empty());
        }
    }
    let waiting: Vec<_> = (0..10)
        .map(|number| consumer(if number % 2 == 0 { &queue } else { &there }, 60))
        .collect();
    stack.api(0).wait_for_waiting_consumers(5).await;
    stack.api(1).wait_for_waiting_consumers(5).await;
    // All but one of the jobs, since a unit that is out for a ms has come back a little by itself.
    publish(&queue, 9).await;
    eventually("all jobs are delivered", PATIENCE, async || {
        match waiting.iter().filter(|it| it.is_finished()).count() {
            9 => Ok(()),
            served => Err(served),
        }
    })
    .await;
    waiting.iter().for_each(JoinHandle::abort);
    stack.finish().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_retry_counts() {
    let stack = stack(1, 1).await;
    let queue = stack.queue("q").await;
    let native = NativeClient::new(stack.api(0), queue.namespace()).await;
    let rate = json!({"rate": {"jobs": 2, "per": "24h"}});
    set(&stack, 1, &queue, rate).await;
    native.publish("q", "", "1").await.expect(201);
    let reserve = json!({"queues": ["q"], "wait": "10s"});
    for _ in 0..2 {
        let answer = native.call("POST", "/reserve", &reserve).await.expect(200);
        let lease = answer.json()["jobs"][0]["lease"].clone();
        let failed = json!({"leases": [{"lease": lease, "error": "e", "retry_in": "0s"}]});
        native.settle("fail", &failed).await;
    }
    eventually("the job is ready again", PATIENCE, async || {
        match queue.size().await {
            1 => Ok(()),
            ready => Err(ready),
        }
    })
    .await;
    let reserve = json!({"queues": ["q"]});
    let answer = native.call("POST", "/reserve", &reserve).await.expect(200);
    assert_eq!(answer.json()["jobs"], json!([]));
    stack.finish().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_rate_or_limit_that_is_changed_serves_consumers_that_wait() {
    let stack = stack(2, 0).await;
    let queue = stack.queue("q").await;
    let once = json!({"jobs": 1, "per": "24h"});
    set_limit(&stack, &queue, "daily", once.clone()).await;
    set(&stack, 2, &queue, json!({"limit": "daily", "rate": once})).await;
    publish(&queue, 3).await;
    assert!(queue.consume().ttr_s(600).job().await.is_some());
    let waiting = consumer(&queue.on_api(stack.api(1)), 60);
    stack.api(1).wait_for_waiting_consumers(1).await;
    set(&stack, 2, &queue, json!({"rate": null})).await;
    sleep(Duration::from_millis(200)).await;
    assert!(!waiting.is_finished(), "the limit holds");
    let often = json!({"jobs": 1, "per": "100ms"});
    set_limit(&stack, &queue, "daily", often).await;
    read_now(stack.api(1)).await;
    assert!(waiting.await.unwrap().is_some());
    let waiting = consumer(&queue, 60);
    assert!(waiting.await.unwrap().is_some());
    stack.finish().await;
}

/// The units of the calls that were in flight are lost, and no others.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_process_that_is_killed_holds_back_no_jobs_of_others() {
    let stack = stack(2, 0).await;
    let queue = stack.queue("q").await;
    let rate = json!({"rate": {"jobs": 20, "per": "1s"}});
    set(&stack, 2, &queue, rate).await;
    publish(&queue, 60).await;
    let (all, started) = (Arc::new(Received::default()), Instant::now());
    let killed = Arc::new(Received::default());
    for _ in 0..4 {
        let there = queue.on_api(stack.api(1)).with_separate_connections();
        let killed = Arc::clone(&killed);
        tokio::spawn(async move {
            while let Ok(answer) = there.consume().ttr_s(600).timeout_s(2).send().await {
                if answer.status == 200 {
                    killed.add(String::new(), started);
                }
            }
        });
    }
    sleep(Duration::from_millis(500)).await;
    stack.api(1).kill();
    let here = queue.with_separate_connections();
    let consuming = tokio::spawn(lmstfy_consumer(here, Arc::clone(&all), started));
    // A job that it had reserved and not delivered is leased.
    eventually("all other jobs are delivered", PATIENCE, async || {
        let received = all.jobs.lock().unwrap().len() + killed.jobs.lock().unwrap().len();
        if received >= 52 {
            Ok(())
        } else {
            Err(received)
        }
    })
    .await;
    let received = all.jobs.lock().unwrap().len() + killed.jobs.lock().unwrap().len();
    let units = 20.0 + 20.0 * started.elapsed().as_secs_f64();
    assert!(received as f64 <= units + 1.0, "{received} of {units}");
    all.is_over.store(true, Ordering::SeqCst);
    consuming.await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn while_redis_is_unavailable_consumers_wait() {
    let stack = stack(1, 0).await;
    let queue = stack.queue("q").await;
    set(&stack, 1, &queue, json!({"rate": {"jobs": 5, "per": "1s"}})).await;
    publish(&queue, 1).await;
    stack.redis.pause().unwrap();
    let waiting = consumer(&queue, 60);
    sleep(Duration::from_millis(300)).await;
    stack.redis.resume().unwrap();
    assert!(waiting.await.unwrap().is_some());
    let metrics = admin(stack.api(0), "GET", "/metrics").await;
    metrics.expect(200);
    stack.finish().await;
}
