//! Payloads, attributes and options arrive as they were given.

use std::time::Duration;

use futures_util::future::join_all;
use serde_json::{Value, json};

use super::scenarios;
use crate::answering::{AnsweringServer, ScriptedAnswer};
use crate::ground::OpenGround;

scenarios![
    a_json_payload_arrives,
    bytes_arrive_with_their_content_type,
    an_empty_payload_arrives,
    a_payload_of_one_mib_arrives,
    integers_of_64_bits_arrive,
    unicode_arrives,
    every_option_arrives,
    a_job_is_due_at_an_instant,
    a_key_of_any_characters_is_found,
    if_exists_decides_about_a_key,
    a_repeated_idempotency_key_is_replayed,
    options_of_lmstfy_arrive,
    a_job_has_its_own_retries,
    a_batch_has_a_result_for_each_job,
    an_atomic_batch_is_stored_or_refused,
    publishes_that_meet_are_sent_together,
    each_publish_has_its_own_error,
];

impl OpenGround {
    /// The only job of the queue, as a worker gets it.
    async fn delivered(&self, queue: &str) -> Value {
        let mut jobs = self.client.reserve(queue, 10).await;
        assert_eq!(jobs.len(), 1, "{jobs:?}");
        jobs.remove(0)
    }

    /// The job with this key, as the server shows it.
    pub(super) async fn shown(&self, queue: &str, key: &str) -> Value {
        let path = format!("/queues/{queue}/jobs/key:{key}");
        self.client.get(&path).await.expect(200).json()
    }
}

async fn a_json_payload_arrives(ground: OpenGround) {
    let payload = json!({"order": 17, "lines": [1.5, null, true, "x"], "empty": {}});
    let mut driver = ground.driver().await;
    let published = driver
        .ok("publish", json!({"queue": "q", "payload": payload}))
        .await;
    assert_eq!(published["outcome"], "created", "{published}");
    let job = ground.delivered("q").await;
    assert_eq!((&job["payload"], &job["id"]), (&payload, &published["id"]));
    assert_eq!(job["content_type"], "application/json");
}

async fn bytes_arrive_with_their_content_type(ground: OpenGround) {
    let mut driver = ground.driver().await;
    let fields = json!({"queue": "q", "payload_base64": "AP+AwyA=", "content_type": "image/png"});
    driver.ok("publish", fields).await;
    let job = ground.delivered("q").await;
    assert_eq!(
        (&job["payload_base64"], &job["content_type"]),
        (&json!("AP+AwyA="), &json!("image/png"))
    );
}

async fn an_empty_payload_arrives(ground: OpenGround) {
    let mut driver = ground.driver().await;
    let fields = json!({"queue": "q", "payload_base64": "", "content_type": "text/plain"});
    driver.ok("publish", fields).await;
    let job = ground.delivered("q").await;
    assert_eq!(job["payload_base64"], "");
    let got = driver.ok("reserve", json!({"queues": ["q"]})).await;
    assert_eq!(got, json!([]));
}

async fn a_payload_of_one_mib_arrives(ground: OpenGround) {
    let mut driver = ground.driver().await;
    let text = "ä".repeat((1 << 19) - 8);
    let fields = json!({"queue": "q", "payload": text});
    driver.ok("publish", fields).await;
    let got = driver.ok("reserve", json!({"queues": ["q"]})).await;
    assert!(got[0]["payload"] == text, "another payload");
}

async fn integers_of_64_bits_arrive(ground: OpenGround) {
    let payload = json!({"odd": 9_007_199_254_740_993_u64, "max": u64::MAX, "min": i64::MIN});
    let mut driver = ground.driver().await;
    driver
        .ok("publish", json!({"queue": "q", "payload": payload}))
        .await;
    let got = driver.ok("reserve", json!({"queues": ["q"]})).await;
    assert_eq!(got[0]["payload"], payload);
}

async fn unicode_arrives(ground: OpenGround) {
    let text = "Zürich → 東京 🎉 \u{1}\u{7f}";
    let mut driver = ground.driver().await;
    let fields = json!({
        "queue": "q", "payload": {"text": text}, "attributes": {"city": "Zürich 東京"},
        "options": {"key": "schlüssel 東京", "group": "grüppe"},
    });
    driver.ok("publish", fields).await;
    let got = driver.ok("reserve", json!({"queues": ["q"]})).await;
    let job = &got[0];
    assert_eq!(job["payload"]["text"], text);
    assert_eq!(job["attributes"], json!({"city": "Zürich 東京"}));
    assert_eq!(
        (&job["key"], &job["group"]),
        (&json!("schlüssel 東京"), &json!("grüppe"))
    );
}

async fn every_option_arrives(ground: OpenGround) {
    let mut driver = ground.driver().await;
    let fields = json!({
        "queue": "q", "payload": 1, "attributes": {"tenant": "blue"},
        "options": {
            "delay_ms": 3_600_000, "key": "k", "if_exists": "keep", "retain_ms": 60_000, "lease_ms": 1_500,
            "max_attempts": 3, "start_within_ms": 5_000, "priority": 4, "group": "g", "durability": "memory",
            "idempotency_key": "once",
        },
    });
    let published = driver.ok("publish", fields).await;
    assert_eq!(published["state"], "delayed");
    let shown = ground.shown("q", "k").await;
    assert_eq!(
        (&shown["priority"], &shown["group"], &shown["max_attempts"]),
        (&json!(4), &json!("g"), &json!(3))
    );
    assert_eq!(shown["attributes"], json!({"tenant": "blue"}));
    let promoted = driver
        .ok("promote", json!({"queue": "q", "job": {"key": "k"}}))
        .await;
    assert_eq!(promoted["outcome"], "promoted");
    let job = ground.delivered("q").await;
    let acked = ground
        .client
        .settle("ack", &json!({"leases": [job["lease"]]}))
        .await;
    assert_eq!(acked[0]["outcome"], "done");
    assert_eq!(
        ground.shown("q", "k").await["state"],
        "done",
        "`retain` was not sent"
    );
}

async fn a_job_is_due_at_an_instant(ground: OpenGround) {
    let mut driver = ground.driver().await;
    let fields = json!({"queue": "q", "payload": 1, "options": {"run_at_ms": 4_102_444_800_123_u64, "key": "k"}});
    driver.ok("publish", fields).await;
    assert_eq!(
        ground.shown("q", "k").await["run_at"],
        "2100-01-01T00:00:00.123Z"
    );
}

async fn a_key_of_any_characters_is_found(ground: OpenGround) {
    let mut driver = ground.driver().await;
    for key in ["a/b/c", "ü ?&#%+=", "key:x", "%2F", "-", "..", "a\u{a0}b"] {
        let fields =
            json!({"queue": "q", "payload": 1, "options": {"key": key, "delay_ms": 60_000}});
        let published = driver.ok("publish", fields).await;
        let named = json!({"queue": "q", "job": {"key": key}});
        let shown = driver.ok("show", named.clone()).await;
        assert_eq!(
            (&shown["id"], &shown["key"]),
            (&published["id"], &json!(key))
        );
        assert_eq!(
            driver.ok("payload", named.clone()).await["payload"],
            1,
            "{key}"
        );
        let cancelled = driver.ok("cancel", named).await;
        assert_eq!(cancelled["outcome"], "cancelled", "{key}");
    }
}

async fn if_exists_decides_about_a_key(ground: OpenGround) {
    let mut driver = ground.driver().await;
    let publish = |rule: &str, payload: u32| json!({"queue": "q", "payload": payload, "options": {"key": "k", "if_exists": rule, "delay_ms": 60_000}});
    assert_eq!(
        driver.ok("publish", publish("keep", 1)).await["outcome"],
        "created"
    );
    assert_eq!(
        driver.ok("publish", publish("keep", 2)).await["outcome"],
        "exists"
    );
    assert_eq!(
        driver.ok("publish", publish("replace", 3)).await["outcome"],
        "replaced"
    );
    let error = driver.error("publish", publish("reject", 4)).await;
    assert_eq!(error["code"], "key_taken", "{error}");
    let named = json!({"queue": "q", "job": {"key": "k"}});
    assert_eq!(driver.ok("payload", named).await["payload"], 3);
}

async fn a_repeated_idempotency_key_is_replayed(ground: OpenGround) {
    let mut driver = ground.driver().await;
    let fields = json!({"queue": "q", "payload": 1, "options": {"idempotency_key": "once"}});
    let first = driver.ok("publish", fields.clone()).await;
    let second = driver.ok("publish", fields).await;
    assert_eq!(
        (&second["id"], &second["replayed"]),
        (&first["id"], &json!(true))
    );
}

async fn options_of_lmstfy_arrive(ground: OpenGround) {
    let mut driver = ground.driver().await;
    let fields = json!({"queue": "q", "payload": 1, "options": {"max_deliveries": 1, "ttl_ms": 600_000, "key": "k"}});
    driver.ok("publish", fields).await;
    let job = ground.delivered("q").await;
    let failed = json!({"leases": [{"lease": job["lease"], "error": "no"}]});
    let failed = ground.client.settle("fail", &failed).await;
    assert_eq!(failed[0]["outcome"], "dead", "the only delivery was used");
}

async fn a_job_has_its_own_retries(ground: OpenGround) {
    let mut driver = ground.driver().await;
    let retry = json!({"delays": ["2m", "10m"], "jitter": 0});
    let fields =
        json!({"queue": "q", "payload": 1, "options": {"retry": retry, "max_attempts": 2}});
    driver.ok("publish", fields).await;
    let job = ground.delivered("q").await;
    let failed = json!({"leases": [job["lease"]], "error": "no"});
    let failed = driver.ok("fail", failed).await;
    assert_eq!(failed[0]["outcome"], "retry");
    let listed = driver
        .ok(
            "list_jobs",
            json!({"queue": "q", "filter": {"state": "delayed"}}),
        )
        .await;
    assert_eq!(listed.as_array().unwrap().len(), 1);
}

async fn a_batch_has_a_result_for_each_job(ground: OpenGround) {
    let mut driver = ground.driver().await;
    let fields = json!({"queue": "q", "jobs": [
        {"payload": {"n": 1}, "options": {"delay_ms": 60_000}},
        {"payload_base64": "AP8=", "content_type": "image/png", "options": {"key": "b"}},
        {"payload": 3, "options": {"key": "b", "if_exists": "reject"}},
        {"payload": 4, "attributes": {"a": "ü"}, "options": {"group": "g", "priority": 2}},
    ]});
    let results = driver.ok("publish_batch", fields).await;
    assert_eq!(results.as_array().unwrap().len(), 4);
    assert_eq!(results[0]["state"], "delayed");
    assert_eq!(results[1]["outcome"], "created");
    assert_eq!(results[2]["error"]["code"], "key_taken", "{results}");
    assert_eq!(results[3]["outcome"], "created");
}

async fn an_atomic_batch_is_stored_or_refused(ground: OpenGround) {
    let mut driver = ground.driver().await;
    let batch = |rule: &str| {
        json!({"queue": "q", "atomic": true, "jobs": [
            {"payload": 1}, {"payload": 2, "options": {"key": "b", "if_exists": rule}},
        ]})
    };
    let stored = driver.ok("publish_batch", batch("keep")).await;
    assert_eq!(stored.as_array().unwrap().len(), 2);
    let refused = driver.error("publish_batch", batch("reject")).await;
    assert_eq!(
        (&refused["code"], &refused["field"]),
        (&json!("key_taken"), &json!("jobs[1]"))
    );
    let queue = driver.ok("queue", json!({"queue": "q"})).await;
    assert_eq!(queue["jobs"]["ready"], 2, "{queue}");
}

async fn publishes_that_meet_are_sent_together(ground: OpenGround) {
    let answer = ScriptedAnswer::published().after(Duration::from_millis(50));
    let server = AnsweringServer::start([answer]).await;
    let mut driver = ground.driver_at(server.address()).await;
    let alone = json!({"queue": "q", "count": 3, "concurrency": 1, "payload_bytes": 100});
    driver.ok("publish_many", alone).await;
    assert_eq!(
        server.requests().len(),
        3,
        "a publish that meets no other is sent at once"
    );
    let many = json!({"queue": "q", "count": 1000, "concurrency": 50, "payload_bytes": 100});
    assert_eq!(driver.ok("publish_many", many).await["published"], 1000);
    let requests = server.requests();
    let jobs: usize = requests.iter().map(|request| request.jobs()).sum();
    assert_eq!(jobs, 1003);
    assert!(requests.len() < 250, "{} requests", requests.len());
    assert!(requests.iter().all(|request| request.jobs() <= 100));
}

async fn each_publish_has_its_own_error(ground: OpenGround) {
    ground
        .client
        .publish("q", "key=k&delay=1h", "x")
        .await
        .expect(201);
    let mut driver = ground.driver().await;
    let mut pending = Vec::new();
    for number in 0..40 {
        let options = match number % 10 {
            7 => json!({"key": "k", "if_exists": "reject"}),
            _ => json!({}),
        };
        let fields = json!({"queue": "q", "payload": number, "options": options});
        pending.push(driver.send("publish", fields).await);
    }
    let ended = join_all(
        pending
            .into_iter()
            .enumerate()
            .map(|(number, pending)| async move {
                match number % 10 {
                    7 => assert_eq!(pending.error().await["code"], "key_taken", "{number}"),
                    _ => assert_eq!(pending.ok().await["outcome"], "created", "{number}"),
                }
            }),
    );
    ended.await;
}
