//! Why a job is where it is: a situation is made, and its cause is named.

use std::time::Duration;

use serde_json::{Value, json};
use tidegate_testkit::{NativeClient, QueueClient, Stack, eventually};

const ENOUGH: Duration = Duration::from_secs(20);

/// A namespace in which situations are made, each in a queue of its own.
struct Situations {
    native: NativeClient,
    lmstfy: QueueClient,
}

impl Situations {
    async fn on(stack: &Stack) -> Self {
        let lmstfy = stack.queue("lmstfy").await;
        let native = NativeClient::new(stack.api(0), lmstfy.namespace()).await;
        Self { native, lmstfy }
    }

    /// Publishes a job with the key `x`.
    async fn publish(&self, queue: &str, options: &str) {
        let options = format!("key=x&{options}");
        let published = self.native.publish(queue, &options, "{}").await;
        assert!(published.status < 300, "{published:?}");
    }

    /// Leases one job with a lease of a minute, unless another one is given.
    async fn lease(&self, queue: &str, lease: &str) -> Value {
        let body = json!({"queues": [queue], "wait": "10s", "lease": lease});
        let answer = self.native.call("POST", "/reserve", &body).await;
        answer.expect(200).json()["jobs"][0]["lease"].clone()
    }

    async fn fail(&self, queue: &str, failure: Value) {
        let mut failed = failure;
        failed["lease"] = self.lease(queue, "1m").await;
        self.native
            .settle("fail", &json!({"leases": [failed]}))
            .await;
    }

    /// Publishes so many jobs without keys. Returns their ids.
    async fn many(&self, queue: &str, count: usize) -> Vec<String> {
        let jobs: Vec<Value> = (0..count)
            .map(|number| json!({"payload": number}))
            .collect();
        let path = format!("/queues/{queue}/jobs/batch");
        let mut ids = Vec::new();
        for jobs in jobs.chunks(500) {
            let body = json!({"jobs": jobs});
            let answer = self.native.call("POST", &path, &body).await.expect(200);
            let answer = answer.json();
            let results = answer["results"].as_array().unwrap().iter();
            ids.extend(results.map(|it| it["id"].as_str().unwrap().to_owned()));
        }
        ids
    }

    async fn cancel(&self, queue: &str, ids: &[String]) {
        for id in ids {
            let path = format!("/queues/{queue}/jobs/{id}");
            self.native
                .send("DELETE", &path, &[], b"")
                .await
                .expect(200);
        }
    }

    async fn policy(&self, queue: &str, policy: Value) {
        let path = format!("/queues/{queue}/policy");
        self.native.call("PATCH", &path, &policy).await.expect(200);
    }

    /// A consumer that waits for the queue for as long as the test may take, once it has found it empty.
    async fn consumer(&self, queue: &str) {
        let (native, queues) = (self.native.clone(), json!([queue]));
        let body = json!({"queues": queues, "wait": "60s"});
        tokio::spawn(async move { native.call("POST", "/reserve", &body).await });
        tokio::time::sleep(Duration::from_millis(300)).await;
    }

    async fn explain(&self, queue: &str, job: &str) -> Value {
        let path = format!("/queues/{queue}/jobs/{job}/explain");
        self.native.get(&path).await.expect(200).json()
    }

    /// The job `x` of the queue has this cause and, in any order, these facts.
    async fn expect(&self, queue: &str, cause: &str, facts: &[&str]) {
        let last = async || {
            let explained = self.explain(queue, "key:x").await;
            let all = explained["facts"].as_array().unwrap();
            let mut codes: Vec<&str> = all.iter().map(|it| it["code"].as_str().unwrap()).collect();
            codes.sort_unstable();
            let mut expected = facts.to_vec();
            expected.sort_unstable();
            match explained["cause"] == cause && codes == expected {
                true => Ok(()),
                false => Err(explained.clone()),
            }
        };
        eventually(&format!("{queue} is explained"), ENOUGH, last).await;
    }
}

/// The number of the fact about the jobs before a job.
fn ahead_of(explained: &Value) -> Value {
    let facts = explained["facts"].as_array().unwrap();
    let ahead = facts.iter().find(|fact| fact["code"] == "ahead");
    ahead.unwrap()["count"].clone()
}

fn text_of<'a>(explained: &'a Value, code: &str) -> &'a str {
    let facts = explained["facts"].as_array().unwrap();
    let fact = facts.iter().find(|fact| fact["code"] == code);
    fact.unwrap()["text"].as_str().unwrap()
}

const READY: [&str; 3] = ["due", "ahead", "running"];

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_cause_of_a_job_that_is_not_due_is_named() {
    let stack = Stack::builder().start().await;
    let all = Situations::on(&stack).await;

    all.publish("delayed", "delay=1h").await;
    all.expect("delayed", "not_due", &["due"]).await;
    all.publish("at", "run_at=2099-01-01T00:00:00Z").await;
    all.expect("at", "not_due", &["due"]).await;
    all.publish("limited", "delay=1h&start_within=5m").await;
    all.expect("limited", "not_due", &["due", "expires"]).await;
    all.publish("closed", "delay=1h").await;
    all.policy("closed", json!({"closed": true})).await;
    all.expect("closed", "not_due", &["due", "queue_closed"])
        .await;
    all.publish("paused-later", "delay=1h").await;
    all.policy("paused-later", json!({"paused": true})).await;
    all.expect("paused-later", "not_due", &["due", "queue_paused"])
        .await;
    all.publish("released", "").await;
    let lease = all.lease("released", "1m").await;
    let release = json!({"leases": [lease], "delay": "1h"});
    all.native.settle("release", &release).await;
    all.expect("released", "not_due", &["due"]).await;

    all.publish("retried", "").await;
    all.fail("retried", json!({"error": "smtp: 421", "retry_in": "1h"}))
        .await;
    all.expect(
        "retried",
        "retry_not_due",
        &["due", "failures", "last_error"],
    )
    .await;
    let retried = all.explain("retried", "key:x").await;
    let last = retried["facts"].as_array().unwrap().last().unwrap();
    assert_eq!(last["text"], "The last error, of attempt 1: smtp: 421");
    let summary = retried["summary"].as_str().unwrap();
    assert!(
        summary.starts_with("Attempt 1 has failed; the next one is due in 59m"),
        "{summary}"
    );
    // A version that replaces the one that failed has not failed.
    all.publish("retried", "if_exists=replace&delay=1h").await;
    all.expect("retried", "not_due", &["due", "last_error"])
        .await;

    stack.finish().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_cause_of_a_ready_job_is_named() {
    let stack = Stack::builder().start().await;
    let all = Situations::on(&stack).await;

    all.publish("alone", "").await;
    all.expect("alone", "no_worker", &READY).await;
    all.publish("alone-in-time", "start_within=1h").await;
    all.expect(
        "alone-in-time",
        "no_worker",
        &[&READY[..], &["expires"]].concat(),
    )
    .await;
    all.publish("paused", "").await;
    all.policy("paused", json!({"paused": true})).await;
    all.expect(
        "paused",
        "paused",
        &[&READY[..], &["queue_paused"]].concat(),
    )
    .await;
    all.publish("paused-until", "").await;
    all.policy(
        "paused-until",
        json!({"paused_until": "2099-01-01T00:00:00Z"}),
    )
    .await;
    all.expect(
        "paused-until",
        "paused",
        &[&READY[..], &["queue_paused"]].concat(),
    )
    .await;

    all.native.publish("busy", "", "first").await.expect(201);
    all.native.publish("busy", "", "second").await.expect(201);
    all.publish("busy", "").await;
    all.lease("busy", "1m").await;
    all.expect("busy", "behind_others", &READY).await;
    assert_eq!(
        all.explain("busy", "key:x").await["summary"],
        "1 job is before it."
    );
    all.lease("busy", "1m").await;
    all.expect("busy", "next", &READY).await;
    all.many("long", 251).await;
    all.publish("long", "").await;
    all.lease("long", "1m").await;
    all.expect("long", "behind_others", &READY).await;
    let far = all.explain("long", "key:x").await;
    assert_eq!(far["summary"], "At least 200 jobs are before it.");
    assert_eq!(ahead_of(&far), Value::Null);
    // Its consumer is registered and the queue is paused for it, so that it gets nothing.
    all.consumer("waited-for").await;
    all.policy("waited-for", json!({"paused": true})).await;
    all.publish("waited-for", "").await;
    all.expect(
        "waited-for",
        "paused",
        &[&READY[..], &["queue_paused"]].concat(),
    )
    .await;
    stack.finish().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_cause_of_a_job_that_runs_or_has_ended_is_named() {
    let stack = Stack::builder().start().await;
    let all = Situations::on(&stack).await;

    all.publish("held", "").await;
    all.lease("held", "1m").await;
    all.expect("held", "held", &["lease_ends"]).await;
    all.publish("held-by", "").await;
    let body = json!({"queues": ["held-by"], "worker": "mailer-7", "lease": "1m"});
    all.native.call("POST", "/reserve", &body).await.expect(200);
    all.expect("held-by", "held", &["lease_ends", "held_by"])
        .await;
    let held = all.explain("held-by", "key:x").await;
    assert_eq!(held["facts"][1]["worker"], "mailer-7");
    let summary = held["summary"].as_str().unwrap();
    assert!(
        summary.starts_with("Worker mailer-7 has attempt 1"),
        "{summary}"
    );
    all.publish("asked", "").await;
    all.lease("asked", "1m").await;
    let path = "/queues/asked/jobs/key:x?running=ask";
    all.native.send("DELETE", path, &[], b"").await.expect(202);
    all.expect("asked", "held", &["lease_ends", "cancel_requested"])
        .await;
    all.publish("replaced", "").await;
    all.lease("replaced", "1m").await;
    all.publish("replaced", "if_exists=replace").await;
    all.expect("replaced", "held", &["lease_ends"]).await;
    all.publish("lost", "").await;
    all.lease("lost", "100ms").await;
    let once = [&READY[..], &["losses"]].concat();
    all.expect("lost", "no_worker", &once).await;

    all.publish("failed", "max_attempts=1").await;
    all.fail("failed", json!({"error": "http: 502"})).await;
    all.expect("failed", "dead_by_failures", &["failures", "last_error"])
        .await;
    all.publish("hopeless", "").await;
    all.fail("hopeless", json!({"error": "http: 410", "dead": true}))
        .await;
    all.expect("hopeless", "dead_for_good", &["failures", "last_error"])
        .await;
    all.publish("crashing", "").await;
    for _ in 0..5 {
        all.lease("crashing", "100ms").await;
    }
    all.expect("crashing", "dead_by_losses", &["losses"]).await;
    all.publish("done", "retain=1h").await;
    let lease = all.lease("done", "1m").await;
    all.native.settle("ack", &json!({"leases": [lease]})).await;
    all.expect("done", "done", &["kept_until"]).await;
    all.publish("again", "retain=1h").await;
    all.fail("again", json!({"error": "http: 502", "retry_in": "1ms"}))
        .await;
    let lease = all.lease("again", "1m").await;
    all.native.settle("ack", &json!({"leases": [lease]})).await;
    all.expect("again", "done", &["kept_until", "failures", "last_error"])
        .await;

    stack.finish().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_cause_of_a_job_of_the_lmstfy_wire_is_named() {
    let stack = Stack::builder().start().await;
    let all = Situations::on(&stack).await;
    let delayed = all.lmstfy.publish("x").delay_s(3600).id().await;
    assert_eq!(all.explain("lmstfy", &delayed).await["cause"], "not_due");
    let dying = all.lmstfy.publish("x").tries(1).id().await;
    assert_eq!(all.explain("lmstfy", &dying).await["cause"], "no_worker");
    let job = all.lmstfy.consume().ttr_s(1).timeout_s(5).job().await;
    assert_eq!(job.unwrap().id, dying);
    assert_eq!(all.explain("lmstfy", &dying).await["cause"], "held");
    eventually("its only try is lost", ENOUGH, async || {
        let explained = all.explain("lmstfy", &dying).await;
        match explained["cause"] == "dead_by_losses" {
            true => Ok(()),
            false => Err(explained),
        }
    })
    .await;
    // Such a job is dropped in any case.
    let dropped = all.lmstfy.publish("x").ttl_s(600).id().await;
    all.lmstfy.consume().ttr_s(60).timeout_s(5).job().await;
    let leased = all.explain("lmstfy", &dropped).await;
    let text = text_of(&leased, "expires");
    assert!(text.ends_with("even if a worker holds it."), "{text}");
    all.publish("in-time", "delay=1h&start_within=5m").await;
    let text = all.explain("in-time", "key:x").await;
    let text = text_of(&text, "expires");
    assert!(text.ends_with("unless a worker has started it."), "{text}");
    let none = all.native.get("/queues/none/jobs/key:x/explain").await;
    assert_eq!(none.expect(404).json()["code"], "job_not_found");
    stack.finish().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_missing_pump_is_named() {
    let mut stack = Stack::builder().pumps(0).start().await;
    let all = Situations::on(&stack).await;
    all.publish("later", "delay=1h").await;
    all.expect("later", "not_due", &["due", "pump_missing"])
        .await;
    all.publish("due", "delay=100ms").await;
    all.expect("due", "no_pump", &["due", "pump_missing"]).await;
    let due = all.explain("due", "key:x").await;
    let text = text_of(&due, "due");
    assert!(text.starts_with("It was due "), "{text}");
    all.publish("expired", "").await;
    all.lease("expired", "100ms").await;
    all.expect("expired", "no_pump", &["lease_ends", "pump_missing"])
        .await;
    let expired = all.explain("expired", "key:x").await;
    let text = text_of(&expired, "lease_ends");
    assert!(text.starts_with("Its lease ended "), "{text}");
    all.publish("ready", "").await;
    all.expect(
        "ready",
        "no_worker",
        &[&READY[..], &["pump_missing"]].concat(),
    )
    .await;
    stack.finish().await;

    stack = Stack::builder()
        .pump_config("pump.lease = \"1s\"")
        .start()
        .await;
    let all = Situations::on(&stack).await;
    all.publish("due", "delay=1s").await;
    all.expect("due", "not_due", &["due"]).await;
    stack.pump(0).kill();
    all.expect("due", "no_pump", &["due", "pump_missing"]).await;
    stack.finish().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_damaged_payload_is_named() {
    let stack = Stack::builder().pumps(0).start().await;
    let all = Situations::on(&stack).await;
    // Too large for its record, also if it is compressed.
    let large: String = (0..5000)
        .map(|_| format!("{:08x}", rand::random::<u32>()))
        .collect();
    let published = all.native.publish("q", "key=x", &large).await.expect(201);
    let id: tidegate_core::JobId = published.json()["id"].as_str().unwrap().parse().unwrap();
    let keys = tidegate_core::keys::DeploymentKeys::new(256);
    let mut redis = redis::Client::open(stack.redis.url()).unwrap();
    redis::cmd("SET")
        .arg(keys.keys(id.bucket()).body(id.number()))
        .arg("rubbish")
        .exec(&mut redis)
        .unwrap();
    all.expect("q", "unreadable", &[&READY[..], &["pump_missing"]].concat())
        .await;
    let listed = all.native.get("/queues/q/jobs").await.expect(200).json();
    assert_eq!(listed["items"][0]["content_type"], Value::Null);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn jobs_that_were_cancelled_are_not_counted_as_jobs_before_another() {
    let stack = Stack::builder().pumps(0).start().await;
    let all = Situations::on(&stack).await;
    for (queue, cancelled) in [("some", 120), ("more", 450)] {
        all.many(queue, 1).await;
        all.lease(queue, "10m").await;
        let ids = all.many(queue, cancelled).await;
        all.publish(queue, "").await;
        all.many(queue, 3).await;
        all.cancel(queue, &ids).await;
        let next = [&READY[..], &["pump_missing"]].concat();
        all.expect(queue, "next", &next).await;
        assert_eq!(ahead_of(&all.explain(queue, "key:x").await), 0);
    }
    // Too many to read them all.
    let ids = all.many("most", 2100).await;
    all.publish("most", "").await;
    all.many("most", 3).await;
    all.lease("most", "10m").await;
    all.cancel("most", &ids[1..]).await;
    let most = all.explain("most", "key:x").await;
    assert_eq!(most["cause"], "behind_others");
    assert_eq!(most["summary"], "Up to 3 jobs are before it.");
    assert_eq!(ahead_of(&most), Value::Null);
    stack.finish().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_damaged_record_is_named() {
    let stack = Stack::builder().pumps(0).start().await;
    let all = Situations::on(&stack).await;
    let published = all.native.publish("q", "key=x", "{}").await.expect(201);
    let id = published.json()["id"].as_str().unwrap().to_owned();
    let job: tidegate_core::JobId = id.parse().unwrap();
    let keys = tidegate_core::keys::DeploymentKeys::new(256);
    let chunk = tidegate_core::keys::BucketKey::Chunk(job.number() / 100);
    let chunk = keys.keys(job.bucket()).key(&chunk);
    let field = format!("{:02}", job.number() % 100);
    let mut redis = redis::Client::open(stack.redis.url()).unwrap();
    let mut get = redis::cmd("HGET");
    let record: Vec<u8> = get.arg(&chunk).arg(&field).query(&mut redis).unwrap();
    // Only the header and the length of the extension are left; the first field of the extension has an unknown name;
    // the payload has another byte.
    let cut = record[..36].to_vec();
    let (mut option, mut payload) = (record.clone(), record.clone());
    option[35] = b'?';
    *payload.last_mut().unwrap() ^= 1;
    for damaged in [cut, option, payload] {
        let mut set = redis::cmd("HSET");
        let set = set.arg(&chunk).arg(&field).arg(&damaged);
        set.exec(&mut redis).unwrap();
        let explained = all.explain("q", &id).await;
        assert_eq!(explained["cause"], "unreadable", "{damaged:?}");
        assert_eq!(explained["state"], "ready");
    }
    stack.finish().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_large_payload_is_not_read_and_named_if_it_is_missing() {
    let stack = Stack::builder().pumps(0).start().await;
    let all = Situations::on(&stack).await;
    // It is not made smaller much by compression.
    let large: String = (0..50_000)
        .map(|_| format!("{:08x}", rand::random::<u32>()))
        .collect();
    let with_key = all.native.publish("q", "key=x", &large).await.expect(201);
    let without = all.native.publish("q", "", &large).await.expect(201);
    let mut redis = redis::Client::open(stack.redis.url()).unwrap();
    let mut sent_bytes = || -> u64 {
        let mut info = redis::cmd("INFO");
        let info: String = info.arg("stats").query(&mut redis).unwrap();
        let mut lines = info.lines();
        let sent = lines.find_map(|line| line.strip_prefix("total_net_output_bytes:"));
        sent.unwrap().parse().unwrap()
    };
    let before = sent_bytes();
    all.expect("q", "no_worker", &[&READY[..], &["pump_missing"]].concat())
        .await;
    let read = sent_bytes() - before;
    assert!(read < 100_000, "{read} bytes for a payload of 400,000");
    for (published, key) in [(&with_key, json!("x")), (&without, Value::Null)] {
        let id = published.json()["id"].as_str().unwrap().to_owned();
        let explained = all.explain("q", &id).await;
        assert_eq!(explained["key"], key);
        let job: tidegate_core::JobId = id.parse().unwrap();
        let keys = tidegate_core::keys::DeploymentKeys::new(256);
        let body = keys.keys(job.bucket()).body(job.number());
        let mut delete = redis::cmd("DEL");
        let deleted: u64 = delete.arg(body).query(&mut redis).unwrap();
        assert_eq!(deleted, 1);
        assert_eq!(all.explain("q", &id).await["cause"], "unreadable");
        all.cancel("q", &[id]).await;
    }
    stack.finish().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_job_that_the_limit_of_running_jobs_holds_back_is_explained() {
    let stack = Stack::builder().start().await;
    let all = Situations::on(&stack).await;
    all.policy("q", json!({"max_running": 2})).await;
    for payload in ["first", "second"] {
        all.native.publish("q", "", payload).await.expect(201);
    }
    all.publish("q", "").await;
    all.expect("q", "no_worker", &READY).await;
    let lease = all.lease("q", "1m").await;
    all.expect("q", "behind_others", &READY).await;
    let explained = all.explain("q", "key:x").await;
    let running = "Workers hold 1 of 2 jobs of its queue that may run at a time.";
    assert_eq!(text_of(&explained, "running"), running);
    all.lease("q", "1m").await;
    all.consumer("q").await;
    all.expect("q", "running_limit", &READY).await;
    let explained = all.explain("q", "key:x").await;
    assert_eq!(
        explained["summary"],
        "Its queue has 2 of 2 jobs running: it is delivered after one of them ends, or when max_running in its policy is \
         raised."
    );
    // The consumer gets it when one of them ends.
    all.native.settle("ack", &json!({"leases": [lease]})).await;
    all.expect("q", "held", &["lease_ends"]).await;
    stack.finish().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_job_that_a_rate_holds_back_is_explained() {
    let stack = Stack::builder().start().await;
    let all = Situations::on(&stack).await;
    let once = json!({"jobs": 1, "per": "1h"});
    all.policy("q", json!({"rate": once})).await;
    all.native.publish("q", "", "first").await.expect(201);
    all.publish("q", "").await;
    let facts = ["due", "ahead", "running", "rate"];
    all.expect("q", "no_worker", &facts).await;
    let explained = all.explain("q", "key:x").await;
    assert_eq!(
        text_of(&explained, "rate"),
        "Its queue delivers 1 job per 1h."
    );
    all.lease("q", "1m").await;
    all.consumer("q").await;
    all.expect("q", "rate_limited", &facts).await;
    let explained = all.explain("q", "key:x").await;
    let summary = explained["summary"].as_str().unwrap();
    let due = "Its queue delivers 1 job per 1h. The next job is possible in 59m";
    assert!(summary.starts_with(due), "{summary}");
    let facts_found = explained["facts"].as_array().unwrap();
    let rate = facts_found
        .iter()
        .find(|fact| fact["code"] == "rate")
        .unwrap();
    assert!(rate["at"].is_string(), "{rate}");

    let limit = all.native.call("PUT", "/limits/hourly", &once).await;
    limit.expect(201);
    for queue in ["one", "other"] {
        all.policy(queue, json!({"limit": "hourly"})).await;
        all.publish(queue, "").await;
    }
    all.lease("one", "1m").await;
    all.expect("other", "limit_full", &["due", "ahead", "running", "limit"])
        .await;
    let explained = all.explain("other", "key:x").await;
    let limit = "Its queue shares the limit hourly: 1 job per 1h.";
    assert!(text_of(&explained, "limit").starts_with(limit));
    stack.finish().await;
}

/// Workers that always find jobs do not wait, and hold jobs of few lanes at a time.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_queue_with_busy_workers_has_workers_in_each_of_its_lanes() {
    let stack = Stack::builder().start().await;
    let all = Situations::on(&stack).await;
    all.lmstfy.set_lanes(stack.api(0), 4).await;
    let queue = all.lmstfy.name();
    let ids = all.many(queue, 40).await;
    all.lease(queue, "1m").await;
    let mut held = 0;
    for id in ids {
        let explained = all.explain(queue, &id).await;
        if explained["state"] == "leased" {
            held += 1;
            continue;
        }
        assert!(
            ["next", "behind_others"].contains(&explained["cause"].as_str().unwrap()),
            "{explained}"
        );
        let running = text_of(&explained, "running");
        assert_eq!(running, "Workers hold 1 jobs of its queue.");
    }
    assert_eq!(held, 1);
    stack.finish().await;
}
