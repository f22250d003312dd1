//! What workers do with jobs.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use rustix::process::Signal;
use serde_json::{Value, json};
use tidegate_testkit::eventually;
use tidegate_testkit::fault_proxy::NetworkConditions;

use super::scenarios;
use crate::answering::{AnsweringServer, ScriptedAnswer};
use crate::driver::Driver;
use crate::ground::OpenGround;

scenarios![
    a_worker_runs_jobs_of_several_queues,
    a_result_of_a_handler_is_kept,
    a_failure_is_retried_with_its_message,
    a_handler_says_when_to_retry,
    a_handler_says_that_a_job_is_dead,
    a_handler_snoozes_a_job,
    a_long_job_is_heartbeaten,
    a_lost_lease_aborts_the_handler,
    a_requested_cancel_reaches_the_handler,
    a_handler_has_a_maximal_run_time,
    a_worker_holds_no_more_jobs_than_slots,
    a_worker_is_listed_by_its_name,
    a_killed_worker_loses_its_job_to_another,
    ten_thousand_jobs_run_once,
    a_worker_survives_an_outage,
    a_worker_is_moved_to_a_server_that_starts_again,
    a_worker_with_a_wrong_key_ends,
    a_worker_without_rights_ends,
    a_worker_backs_off_if_it_is_told_to,
    a_report_travels_with_the_next_reserve,
];

const ENOUGH: Duration = Duration::from_secs(30);

impl OpenGround {
    /// How many jobs of the queue are in this state.
    pub(super) async fn count(&self, queue: &str, state: &str) -> u64 {
        let queue = self.client.get(&format!("/queues/{queue}")).await;
        queue.expect(200).json()["jobs"][state].as_u64().unwrap()
    }

    /// Waits until so many jobs of the queue are in this state.
    pub(super) async fn until(&self, queue: &str, state: &str, jobs: u64) {
        eventually("the number of jobs", ENOUGH, async || {
            match self.count(queue, state).await {
                same if same == jobs => Ok(()),
                other => Err(format!("{other} are {state}")),
            }
        })
        .await;
    }

    /// Publishes a job that says what its handler does.
    pub(super) async fn publish(&self, options: &str, payload: &Value) {
        let path = format!("/queues/q/jobs?{options}");
        self.client.call("POST", &path, payload).await.expect(201);
    }

    /// A driver with a worker of two slots.
    pub(super) async fn worker(&self, fields: Value) -> Driver {
        let mut driver = self.driver().await;
        work(&mut driver, fields).await;
        driver
    }
}

/// Starts a worker for the queue `q`, with further fields.
pub(super) async fn work(driver: &mut Driver, fields: Value) {
    let mut work = json!({"queues": ["q"], "slots": 2});
    let Value::Object(fields) = fields else {
        panic!("{fields} is no object");
    };
    work.as_object_mut().unwrap().extend(fields);
    driver.ok("work", work).await;
}

async fn a_worker_runs_jobs_of_several_queues(ground: OpenGround) {
    ground.client.publish("first", "", "x").await.expect(201);
    ground.client.publish("second", "", "x").await.expect(201);
    let mut driver = ground.worker(json!({"queues": ["first", "second"]})).await;
    let mut queues = Vec::new();
    while queues.len() < 2 {
        let event = driver.event().await;
        if event["event"] == "started" {
            queues.push(event["queue"].as_str().unwrap().to_owned());
        }
    }
    queues.sort_unstable();
    assert_eq!(queues, ["first", "second"]);
    ground.until("first", "leased", 0).await;
    ground.until("second", "leased", 0).await;
}

async fn a_result_of_a_handler_is_kept(ground: OpenGround) {
    let payload = json!({"then": "result", "result": {"sum": 9_007_199_254_740_993_u64}});
    ground.publish("key=k&retain=1h", &payload).await;
    let _driver = ground.worker(json!({})).await;
    ground.until("q", "done", 1).await;
    let result = ground.client.get("/queues/q/jobs/key:k/result").await;
    assert_eq!(result.expect(200).json(), payload["result"]);
}

async fn a_failure_is_retried_with_its_message(ground: OpenGround) {
    ground
        .publish("key=k", &json!({"then": "fail", "error": "kein Anschluß"}))
        .await;
    let mut driver = ground.worker(json!({})).await;
    driver.expect_event("started").await;
    ground.until("q", "delayed", 1).await;
    let shown = ground.shown("q", "k").await;
    let error = shown["history"][0]["error"].as_str().unwrap();
    assert!(error.contains("kein Anschluß"), "{error}");
}

async fn a_handler_says_when_to_retry(ground: OpenGround) {
    ground
        .publish("key=k", &json!({"then": "retry_in", "ms": 3_600_000}))
        .await;
    let mut driver = ground.worker(json!({})).await;
    driver.expect_event("started").await;
    ground.until("q", "delayed", 1).await;
    let shown = ground.shown("q", "k").await;
    assert_eq!(
        (&shown["failures"], &shown["history"][0]["error"]),
        (&json!(1), &json!("asked"))
    );
    let (due, failed) = (at(&shown["run_at"]), at(&shown["history"][0]["ended_at"]));
    assert!((3_600_000..3_601_000).contains(&(due - failed)), "{shown}");
}

/// An instant as ms since 1970.
fn at(value: &Value) -> i64 {
    let instant: jiff::Timestamp = value.as_str().unwrap().parse().unwrap();
    instant.as_millisecond()
}

async fn a_handler_says_that_a_job_is_dead(ground: OpenGround) {
    ground.publish("key=k", &json!({"then": "dead"})).await;
    let _driver = ground.worker(json!({})).await;
    ground.until("q", "dead", 1).await;
    assert_eq!(ground.shown("q", "k").await["reason"], "permanent");
}

async fn a_handler_snoozes_a_job(ground: OpenGround) {
    ground
        .publish("key=k", &json!({"then": "snooze", "ms": 3_600_000}))
        .await;
    let mut driver = ground.worker(json!({})).await;
    driver.expect_event("started").await;
    ground.until("q", "delayed", 1).await;
    let shown = ground.shown("q", "k").await;
    assert_eq!(
        (&shown["failures"], &shown["losses"]),
        (&json!(0), &json!(0))
    );
}

async fn a_long_job_is_heartbeaten(ground: OpenGround) {
    ground.publish("", &json!({"sleep_ms": 3_500})).await;
    let mut driver = ground.worker(json!({"lease_ms": 1_000})).await;
    driver.expect_event("started").await;
    let ended = driver.expect_event("ended").await;
    assert_eq!(ended["attempt"], 1);
    ground.until("q", "leased", 0).await;
    assert_eq!(ground.count("q", "ready").await, 0);
}

/// With a free slot the stopped worker would get the job again.
async fn a_lost_lease_aborts_the_handler(ground: OpenGround) {
    ground.publish("", &json!({"sleep_ms": 30_000})).await;
    let mut driver = ground.worker(json!({"slots": 1, "lease_ms": 1_000})).await;
    driver.expect_event("started").await;
    driver.signal(Signal::STOP);
    let stolen = ground.client.reserve("q", 1).await;
    assert_eq!((stolen.len(), &stolen[0]["losses"]), (1, &json!(1)));
    driver.signal(Signal::CONT);
    let aborted = driver.expect_event("aborted").await;
    assert_eq!(
        (&aborted["reason"], &aborted["attempt"]),
        (&json!("lease_lost"), &json!(1))
    );
    let acked = ground
        .client
        .settle("ack", &json!({"leases": [stolen[0]["lease"]]}))
        .await;
    assert_eq!(acked[0]["outcome"], "done", "the second worker has it");
}

async fn a_requested_cancel_reaches_the_handler(ground: OpenGround) {
    ground.publish("key=k", &json!({"sleep_ms": 30_000})).await;
    let mut driver = ground.worker(json!({"lease_ms": 1_000})).await;
    driver.expect_event("started").await;
    let path = "/queues/q/jobs/key:k?running=ask";
    ground
        .client
        .send("DELETE", path, &[], b"")
        .await
        .expect(202);
    let aborted = driver.expect_event("aborted").await;
    assert_eq!(aborted["reason"], "cancel_requested");
    ground.until("q", "leased", 0).await;
    ground.client.get("/queues/q/jobs/key:k").await.expect(404);
}

async fn a_handler_has_a_maximal_run_time(ground: OpenGround) {
    ground.publish("key=k", &json!({"sleep_ms": 30_000})).await;
    let mut driver = ground.worker(json!({"max_run_ms": 500})).await;
    driver.expect_event("started").await;
    assert_eq!(driver.expect_event("aborted").await["reason"], "max_run");
    ground.until("q", "delayed", 1).await;
    assert_eq!(ground.shown("q", "k").await["failures"], 1);
}

async fn a_worker_holds_no_more_jobs_than_slots(ground: OpenGround) {
    for _ in 0..5 {
        ground.publish("", &json!({"sleep_ms": 700})).await;
    }
    let _driver = ground.worker(json!({"slots": 2})).await;
    let mut most = 0;
    let begin = Instant::now();
    while ground.count("q", "ready").await + ground.count("q", "leased").await > 0 {
        most = most.max(ground.count("q", "leased").await);
        assert!(begin.elapsed() < ENOUGH, "jobs are left");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    assert_eq!(most, 2);
}

async fn a_worker_is_listed_by_its_name(ground: OpenGround) {
    ground.publish("", &json!({"sleep_ms": 8_000})).await;
    let mut driver = ground
        .worker(json!({"name": "mailer-7", "lease_ms": 5_000}))
        .await;
    driver.expect_event("started").await;
    eventually("the worker is listed", ENOUGH, async || {
        let page = ground.client.get("/workers").await.expect(200).json();
        match page["items"][0]["worker"] == "mailer-7" {
            true => Ok(()),
            false => Err(page.to_string()),
        }
    })
    .await;
}

async fn a_killed_worker_loses_its_job_to_another(ground: OpenGround) {
    ground.publish("", &json!({"sleep_ms": 3_000})).await;
    let mut first = ground.worker(json!({"lease_ms": 1_000})).await;
    first.expect_event("started").await;
    let mut second = ground.worker(json!({"lease_ms": 1_000})).await;
    first.signal(Signal::KILL);
    let started = second.expect_event("started").await;
    assert_eq!(started["attempt"], 2);
    assert_eq!(second.expect_event("ended").await["attempt"], 2);
    ground.until("q", "leased", 0).await;
}

async fn ten_thousand_jobs_run_once(ground: OpenGround) {
    const JOBS: usize = 10_000;
    let mut workers = [
        ground.worker(json!({"slots": 32})).await,
        ground.worker(json!({"slots": 32})).await,
    ];
    let mut publisher = ground.driver().await;
    let many = json!({"queue": "q", "count": JOBS, "concurrency": 32, "payload_bytes": 100});
    let publishing = publisher.send("publish_many", many).await;
    assert_eq!(publishing.ok().await["published"], JOBS);
    let mut starts: BTreeMap<String, usize> = BTreeMap::new();
    let [one, other] = &mut workers;
    while starts.len() < JOBS {
        let event = tokio::select! {
            event = one.event() => event,
            event = other.event() => event,
        };
        if event["event"] == "started" {
            *starts
                .entry(event["job"].as_str().unwrap().to_owned())
                .or_default() += 1;
        }
    }
    ground.until("q", "leased", 0).await;
    assert_eq!(ground.count("q", "ready").await, 0);
    assert!(starts.values().all(|count| *count == 1), "some ran twice");
}

async fn a_worker_survives_an_outage(ground: OpenGround) {
    let proxy = ground.proxy().await;
    let mut driver = ground.driver_at(proxy.address()).await;
    work(&mut driver, json!({})).await;
    ground.publish("", &json!({})).await;
    driver.expect_event("started").await;
    driver.expect_event("ended").await;
    proxy.set(NetworkConditions {
        resets_connections: true,
        ..NetworkConditions::default()
    });
    proxy.cut();
    tokio::time::sleep(Duration::from_secs(2)).await;
    ground.publish("", &json!({})).await;
    proxy.set(NetworkConditions::default());
    driver.expect_event("started").await;
    driver.expect_event("ended").await;
    ground.until("q", "leased", 0).await;
}

async fn a_worker_is_moved_to_a_server_that_starts_again(ground: OpenGround) {
    let proxy = ground.proxy().await;
    let mut driver = ground.driver_at(proxy.address()).await;
    work(&mut driver, json!({})).await;
    tokio::time::sleep(Duration::from_millis(300)).await;
    // The reserve in flight is lost without a word.
    proxy.lead_to(ground.stack().api(1).listen());
    proxy.cut();
    ground.publish("", &json!({})).await;
    driver.expect_event("started").await;
    driver.expect_event("ended").await;
}

async fn a_worker_with_a_wrong_key_ends(ground: OpenGround) {
    let server = ground.stack().api(0).listen();
    let wrong = "tg_7Q2M9XK4T1BC_0Q8X1V7Z4M2K6H9T3B5N8R1C7D";
    let mut driver = ground.driver_with_key(server, wrong).await;
    work(&mut driver, json!({})).await;
    let ended = driver.expect_event("worker_ended").await;
    assert_eq!(
        (&ended["error"]["class"], &ended["error"]["status"]),
        (&json!("AuthError"), &json!(401))
    );
}

async fn a_worker_without_rights_ends(ground: OpenGround) {
    let api = ground.stack().api(0);
    let reader =
        tidegate_testkit::NativeClient::with_scopes(api, ground.namespace(), &["read"]).await;
    let mut driver = ground.driver_with_key(api.listen(), reader.key()).await;
    work(&mut driver, json!({})).await;
    let ended = driver.expect_event("worker_ended").await;
    assert_eq!(
        (&ended["error"]["class"], &ended["error"]["status"]),
        (&json!("AuthError"), &json!(403))
    );
}

async fn a_worker_backs_off_if_it_is_told_to(ground: OpenGround) {
    let full = ScriptedAnswer::problem(429, "too_many_waiting", "no").header("retry-after", "1");
    let server = AnsweringServer::start([full]).await;
    let mut driver = ground.driver_at(server.address()).await;
    work(&mut driver, json!({})).await;
    tokio::time::sleep(Duration::from_millis(3_500)).await;
    let pauses = server.pauses();
    assert!(pauses.len() >= 2, "it gave up: {pauses:?}");
    assert!(
        pauses
            .iter()
            .all(|pause| *pause >= Duration::from_millis(990)),
        "{pauses:?}"
    );
    assert!(driver.is_silent(Duration::from_millis(10)).await);
}

async fn a_report_travels_with_the_next_reserve(ground: OpenGround) {
    let lease = "01M83TRGX7026000001X148JA1.1.q";
    let at = "2026-11-23T09:10:59.751Z";
    let job = json!({
        "id": "01M83TRGX7026000001X148JA1", "queue": "q", "lease": lease, "lease_until": "2026-11-23T09:11:59.751Z",
        "attempt": 1, "failures": 0, "losses": 0, "run_at": at, "created_at": at, "content_type": "application/json",
        "payload": {},
    });
    let first = ScriptedAnswer::json(200, &json!({"now": at, "jobs": [job]}));
    let settled = json!({"jobs": [], "settled": {"ack": [{"outcome": "done"}], "fail": []}});
    let second = ScriptedAnswer::json(200, &settled);
    let then = ScriptedAnswer::json(200, &json!({"jobs": []})).after(Duration::from_secs(1));
    let server = AnsweringServer::start([first, second, then]).await;
    let mut driver = ground.driver_at(server.address()).await;
    work(&mut driver, json!({"slots": 1})).await;
    driver.expect_event("started").await;
    driver.expect_event("ended").await;
    tokio::time::sleep(Duration::from_millis(1_500)).await;
    let requests = server.requests();
    let paths: Vec<&str> = requests
        .iter()
        .map(|it| it.path.rsplit('/').next().unwrap())
        .collect();
    assert!(paths.iter().all(|path| *path == "reserve"), "{paths:?}");
    let body: Value = serde_json::from_slice(&requests[1].body).unwrap();
    assert_eq!(body["settle"]["ack"], json!([lease]), "{body}");
    let later = requests[2..]
        .iter()
        .map(|it| String::from_utf8_lossy(&it.body).into_owned());
    assert!(
        later.clone().all(|body| !body.contains("settle")),
        "reported twice: {:?}",
        later.collect::<Vec<_>>()
    );
}
