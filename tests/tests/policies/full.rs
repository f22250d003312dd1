//! Queues that are closed, or full.

use std::net::Ipv4Addr;
use std::time::Duration;

use serde_json::{Value, json};
use tidegate_testkit::fault_proxy::NetworkConditions;
use tidegate_testkit::{
    Daemon, DaemonProgram, FaultProxy, NativeClient, QueueClient, Stack, eventually, print_figure,
    seed,
};

use crate::fixture::{PATIENCE, publish_until, read_now};

const CLOSED: &str = r#"{"error":"the queue is closed, it accepts no jobs"}"#;
const FULL: &str = r#"{"error":"the queue is full, please retry later"}"#;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_closed_queue_takes_no_jobs_and_delivers_those_that_it_has() {
    let stack = Stack::builder().apis(2).pumps(0).start().await;
    let queue = stack.queue("q").await;
    let there = queue.on_api(stack.api(1));
    let id = queue.publish("x").id().await;
    queue.patch_policy(stack.api(0), r#"{"closed":true}"#).await;
    let refused = queue.publish("x").send().await.unwrap().expect(400);
    assert_eq!(refused.text(), CLOSED);
    publish_until(&there, 400).await;
    let bulk = queue.publish_bulk(&["1".to_owned()]).send().await.unwrap();
    assert_eq!(bulk.expect(400).text(), CLOSED);
    let replaced = queue.republish(&id, "y").send().await.unwrap();
    assert_eq!(replaced.expect(400).text(), CLOSED);
    let large = queue.publish("x".repeat(100_000)).send().await.unwrap();
    assert_eq!(large.expect(400).text(), CLOSED);
    queue
        .sibling("other")
        .publish("x")
        .send()
        .await
        .unwrap()
        .expect(201);
    // Publishes through the other API may have come before the change.
    while let Some(job) = queue.consume().job().await {
        queue.ack(&job.id).await;
    }
    queue
        .patch_policy(stack.api(1), r#"{"closed":false}"#)
        .await;
    publish_until(&queue, 201).await;
    stack.finish().await;
}

/// Publishes single jobs, bulks and large jobs from many clients of both APIs. Returns how many jobs were stored.
async fn publish_from_many(queues: &[QueueClient]) -> u64 {
    let mut tasks = Vec::new();
    for number in 0..60 {
        let queue = queues[number % queues.len()].clone();
        tasks.push(tokio::spawn(async move {
            let bulk = || vec!["1".to_owned(); 1 + number % 5];
            let (answer, jobs) = match number % 4 {
                0 | 1 => (queue.publish("x").send().await, 1),
                2 => (
                    queue.publish_bulk(&bulk()).send().await,
                    bulk().len() as u64,
                ),
                _ => (queue.publish("x".repeat(30_000)).send().await, 1),
            };
            let answer = answer.unwrap();
            match answer.status {
                201 => jobs,
                429 => {
                    assert_eq!(answer.text(), FULL);
                    assert_eq!(answer.header("retry-after"), Some("1"));
                    0
                }
                _ => panic!("{answer}"),
            }
        }));
    }
    let mut stored = 0;
    for task in tasks {
        stored += task.await.unwrap();
    }
    stored
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn concurrent_publishes_of_two_apis_never_exceed_the_limit() {
    const MAX_JOBS: u64 = 40;
    let stack = Stack::builder().apis(2).pumps(0).start().await;
    let queue = stack.queue("q").await;
    let queues = [queue.clone(), queue.on_api(stack.api(1))];
    queue
        .patch_policy(stack.api(0), &format!(r#"{{"max_jobs":{MAX_JOBS}}}"#))
        .await;
    read_now(stack.api(1)).await;
    for round in 0..5 {
        let before = queue.size().await;
        let stored = publish_from_many(&queues).await;
        let size = queue.size().await;
        assert_eq!(size, before + stored, "round {round}");
        assert!(size <= MAX_JOBS, "{size}");
        print_figure(&format!(
            "round {round}: {stored} jobs stored, {size} in the queue"
        ));
        // There is room for single jobs until the queue is full.
        while queue.size().await < MAX_JOBS {
            queue.publish("x").send().await.unwrap().expect(201);
        }
        queue.publish("x").send().await.unwrap().expect(429);
        let jobs = queue.consume().count(3 + round * 3).jobs().await;
        assert!(!jobs.is_empty());
        // Leased jobs count.
        queue.publish("x").send().await.unwrap().expect(429);
        for job in jobs {
            queue.ack(&job.id).await;
        }
    }
    stack.finish().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_bulk_is_stored_as_a_whole_and_a_replacement_needs_no_room() {
    let stack = Stack::builder().pumps(0).start().await;
    let queue = stack.queue("q").await;
    let bulk = |jobs| vec!["1".to_owned(); jobs];
    queue.patch_policy(stack.api(0), r#"{"max_jobs":10}"#).await;
    queue
        .publish_bulk(&bulk(11))
        .send()
        .await
        .unwrap()
        .expect(429);
    assert_eq!(queue.size().await, 0);
    queue
        .publish_bulk(&bulk(9))
        .send()
        .await
        .unwrap()
        .expect(201);
    queue
        .publish_bulk(&bulk(2))
        .send()
        .await
        .unwrap()
        .expect(429);
    let id = queue.publish("x").id().await;
    queue.publish("x").send().await.unwrap().expect(429);
    queue.republish(&id, "y").send().await.unwrap().expect(201);
    assert_eq!(queue.size().await, 10);
    // A lower limit deletes nothing; a higher one, and none, make room.
    queue.patch_policy(stack.api(0), r#"{"max_jobs":5}"#).await;
    queue.publish("x").send().await.unwrap().expect(429);
    assert_eq!(queue.size().await, 10);
    queue.patch_policy(stack.api(0), r#"{"max_jobs":11}"#).await;
    queue.publish("x").send().await.unwrap().expect(201);
    queue.publish("x").send().await.unwrap().expect(429);
    queue
        .try_policy(stack.api(0), "PUT", "{}", None)
        .await
        .unwrap()
        .expect(200);
    queue.publish("x").send().await.unwrap().expect(201);
    stack.finish().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_lanes_of_a_queue_share_its_limit() {
    const MAX_JOBS: u64 = 10;
    let stack = Stack::builder().pumps(0).start().await;
    let queue = stack.queue("q").await;
    queue.set_lanes(stack.api(0), 4).await;
    queue
        .patch_policy(stack.api(0), &format!(r#"{{"max_jobs":{MAX_JOBS}}}"#))
        .await;
    for number in 0..MAX_JOBS {
        let answer = queue.publish("x").send().await.unwrap();
        assert_eq!(answer.status, 201, "{number}: {answer}");
    }
    queue.publish("x").send().await.unwrap().expect(429);
    assert_eq!(queue.size().await, MAX_JOBS);
    let stored = publish_from_many(std::slice::from_ref(&queue)).await;
    assert_eq!(stored, 0);
    let job = queue.consume().job().await.unwrap();
    queue.ack(&job.id).await;
    queue.publish("x").send().await.unwrap().expect(201);
    // A reserve that takes more than 25 ms is made in another lane too, and the second job is released behind the
    // answer.
    eventually("all jobs ready", PATIENCE, async || {
        match queue.size().await {
            MAX_JOBS => Ok(()),
            size => Err(size),
        }
    })
    .await;
    stack.finish().await;
}

/// Jobs with keys have the share of the lane of their key: these keys, and jobs of schedules, are in the first lane.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn jobs_with_keys_and_of_schedules_have_the_share_of_the_first_lane() {
    const MAX_JOBS: u64 = 10;
    const OF_FIRST_LANE: u64 = 3;
    let stack = Stack::builder().start().await;
    let (api, queue) = (stack.api(0), stack.queue_in("shop", "q").await);
    let native = NativeClient::new(api, "shop").await;
    queue.set_lanes(api, 4).await;
    let policy = json!({"max_jobs": MAX_JOBS}).to_string();
    queue.patch_policy(api, &policy).await;
    let batch = async |atomic, first: u64, jobs: u64| {
        let job = |number| json!({"payload": 1, "key": format!("schedule:b{number}")});
        let jobs: Vec<Value> = (first..first + jobs).map(job).collect();
        let body = json!({"atomic": atomic, "jobs": jobs});
        native.call("POST", "/queues/q/jobs/batch", &body).await
    };
    batch(true, 0, OF_FIRST_LANE + 1).await.expect(429);
    batch(true, 0, OF_FIRST_LANE - 1).await.expect(201);
    native.publish("q", "key=schedule:a", "x").await.expect(201);
    native.publish("q", "key=schedule:c", "x").await.expect(429);
    let refused = batch(false, 9, 1).await.expect(200).json();
    assert_eq!(refused["results"][0]["problem"]["code"], "queue_full");
    // A tick needs a place in the same lane, and is left out without one.
    let schedule = json!({"queue": "q", "every": "1s", "overlap": "allow", "job": {"payload": 1}});
    let put = native.call("PUT", "/schedules/s", &schedule);
    put.await.expect(201);
    eventually("two ticks are left out", PATIENCE, async || {
        let (name, label) = ("tidegate_pump_schedule_ticks_total", "outcome=\"left_out\"");
        match stack.pump(0).metric_with_label(name, label).await {
            left_out if left_out >= 2.0 => Ok(()),
            left_out => Err(left_out),
        }
    })
    .await;
    assert_eq!(queue.size().await, OF_FIRST_LANE);
    let job = native.reserve("q", 1).await.remove(0);
    let leases = json!({"leases": [job["lease"]]});
    native.settle("ack", &leases).await;
    eventually("a tick is published", PATIENCE, async || {
        match queue.size().await {
            OF_FIRST_LANE => Ok(()),
            size => Err(size),
        }
    })
    .await;
    for _ in OF_FIRST_LANE..MAX_JOBS {
        queue.publish("x").send().await.unwrap().expect(201);
    }
    queue.publish("x").send().await.unwrap().expect(429);
    assert_eq!(queue.size().await, MAX_JOBS);
    stack.finish().await;
}

/// The unit of a rate limit is used by a publish that stores a job only.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_refused_publish_uses_no_unit_of_a_rate_limit() {
    let stack = Stack::builder().pumps(0).start().await;
    let (api, queue) = (stack.api(0), stack.queue("q").await);
    queue.limit_token(api, 0, 2, 3600).await;
    queue.patch_policy(api, r#"{"max_jobs":1}"#).await;
    queue.publish("x").send().await.unwrap().expect(201);
    for _ in 0..5 {
        // A unit is given back behind the answer.
        eventually("the unit given back", PATIENCE, async || {
            match queue.publish("x").send().await.unwrap() {
                answer if answer.text() == FULL => Ok(()),
                answer => Err(answer),
            }
        })
        .await;
    }
    queue.patch_policy(api, r#"{"max_jobs":2}"#).await;
    publish_until(&queue, 201).await;
    stack.finish().await;
}

/// A pool that moves stores new jobs in another one, under the policies of both.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_queue_stays_closed_while_its_pool_moves() {
    let stack = Stack::builder().pumps(0).pool("new");
    let stack = stack
        .api_config("[pool.default]\nmigrate_to = \"new\"")
        .start()
        .await;
    let queue = stack.queue("q").await;
    queue.publish("x").send().await.unwrap().expect(201);
    queue.patch_policy(stack.api(0), r#"{"closed":true}"#).await;
    assert_eq!(
        queue.publish("x").send().await.unwrap().expect(400).text(),
        CLOSED
    );
    stack.finish().await;
}

/// The time of a byte to or from a distant Redis.
const DISTANCE: Duration = Duration::from_millis(300);

/// A batch stores a bulk for which there is room. The call that looks for room for the other one fails. On a machine
/// that stalls the connection is cut too early or too late, so there are several attempts.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_failed_call_does_not_fail_what_calls_before_it_have_stored() {
    const ATTEMPTS: usize = 5;
    let stack = Stack::builder().pumps(0).start().await;
    let queue = stack.queue("q").await;
    let free_port = (Ipv4Addr::LOCALHOST, 0).into();
    let proxy = FaultProxy::start_at(free_port, stack.redis.address(), DISTANCE, seed()).await;
    let folder = tempfile::tempdir().unwrap();
    let redis = format!("--redis=redis://{}", proxy.address());
    let distant = Daemon::start(DaemonProgram::Api, "distant", &[redis], folder.path()).await;
    let mut seen = Vec::new();
    while seen.len() < ATTEMPTS {
        let near = queue.sibling(&format!("q{}", seen.len()));
        near.patch_policy(stack.api(0), r#"{"max_jobs":5}"#).await;
        read_now(&distant).await;
        let statuses = statuses_of_a_cut_batch(&near, &near.on_api(&distant), &proxy).await;
        assert_eq!(near.size().await, 4);
        if statuses == [201, 201, 500] {
            return stack.finish().await;
        }
        seen.push(statuses);
        proxy.set(NetworkConditions::default());
        let answers = async || match near.on_api(&distant).publish("x").send().await.unwrap() {
            answer if answer.status == 201 => Ok(()),
            answer => Err(answer),
        };
        eventually("the distant API publishes again", PATIENCE, answers).await;
    }
    panic!("{seen:?}");
}

/// Publishes bulks of 1, 2 and 4 jobs through a distant API beside a job that is there, and cuts its connections when
/// it has learnt that the second is stored. Returns the statuses.
async fn statuses_of_a_cut_batch(
    near: &QueueClient,
    distant: &QueueClient,
    proxy: &FaultProxy,
) -> [u16; 3] {
    let queue = distant.with_separate_connections();
    queue.publish("x").id().await;
    let bulk = |jobs: usize| tokio::spawn(queue.publish_bulk(&vec!["1".to_owned(); jobs]).send());
    // The others gather in a batch while this one is in its call.
    let first = bulk(1);
    eventually("the first is stored", PATIENCE, async || {
        size_is(near, 2).await
    })
    .await;
    let (fits, too_large) = (bulk(2), bulk(4));
    eventually("the bulk that fits is stored", PATIENCE, async || {
        size_is(near, 4).await
    })
    .await;
    // Its answer has arrived, and that of the next call has not.
    tokio::time::sleep(DISTANCE * 2).await;
    proxy.set(NetworkConditions {
        resets_connections: true,
        ..NetworkConditions::default()
    });
    proxy.cut();
    let answers = [first.await, fits.await, too_large.await];
    answers.map(|answer| answer.unwrap().unwrap().status)
}

async fn size_is(queue: &QueueClient, expected: u64) -> Result<(), u64> {
    match queue.size().await {
        size if size == expected => Ok(()),
        size => Err(size),
    }
}
