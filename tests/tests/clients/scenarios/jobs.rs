//! Showing, changing and cancelling jobs, and results.

use std::time::Duration;

use serde_json::{Value, json};

use super::scenarios;
use crate::ground::OpenGround;

scenarios![
    a_job_is_shown_and_explained,
    a_payload_is_read,
    a_job_is_changed_and_promoted,
    a_waiting_job_is_cancelled,
    a_running_job_is_cancelled_as_asked,
    jobs_are_listed_in_pages,
    many_jobs_are_acted_on,
    a_result_is_read,
    a_call_returns_the_result,
    a_call_returns_bytes_and_nothing,
    a_call_without_an_answer_is_pending,
    a_call_of_a_job_that_dies_is_an_error,
];

fn named(key: &str) -> Value {
    json!({"queue": "q", "job": {"key": key}})
}

fn with(mut fields: Value, more: Value) -> Value {
    let Value::Object(more) = more else {
        panic!("{more} is no object");
    };
    fields.as_object_mut().unwrap().extend(more);
    fields
}

async fn a_job_is_shown_and_explained(ground: OpenGround) {
    let mut driver = ground.driver().await;
    let fields = json!({"queue": "q", "payload": 1, "options": {"delay_ms": 60_000, "key": "k"}});
    let published = driver.ok("publish", fields).await;
    let shown = driver
        .ok(
            "show",
            json!({"queue": "q", "job": {"id": published["id"]}}),
        )
        .await;
    assert_eq!(
        (&shown["state"], &shown["key"]),
        (&json!("delayed"), &json!("k"))
    );
    let explained = driver.ok("explain", named("k")).await;
    assert_eq!(explained["cause"], "not_due", "{explained}");
}

async fn a_payload_is_read(ground: OpenGround) {
    let mut driver = ground.driver().await;
    let bytes = json!({"payload_base64": "AP8=", "content_type": "image/png"});
    driver
        .ok(
            "publish",
            with(
                bytes.clone(),
                json!({"queue": "q", "options": {"key": "bytes"}}),
            ),
        )
        .await;
    driver
        .ok(
            "publish",
            json!({"queue": "q", "payload": {"a": 1}, "options": {"key": "json"}}),
        )
        .await;
    assert_eq!(driver.ok("payload", named("bytes")).await, bytes);
    assert_eq!(
        driver.ok("payload", named("json")).await,
        json!({"payload": {"a": 1}})
    );
}

async fn a_job_is_changed_and_promoted(ground: OpenGround) {
    let mut driver = ground.driver().await;
    let fields = json!({"queue": "q", "payload": 1, "options": {"delay_ms": 60_000, "key": "k"}});
    driver.ok("publish", fields).await;
    let options = json!({"options": {"run_at_ms": 4_102_444_800_000_u64, "priority": 3}});
    let changed = driver.ok("change", with(named("k"), options)).await;
    assert_eq!(changed["run_at"], "2100-01-01T00:00:00.000Z");
    assert_eq!(ground.shown("q", "k").await["priority"], 3);
    let promoted = driver.ok("promote", named("k")).await;
    assert_eq!(promoted["outcome"], "promoted");
    assert_eq!(ground.shown("q", "k").await["state"], "ready");
}

async fn a_waiting_job_is_cancelled(ground: OpenGround) {
    let mut driver = ground.driver().await;
    let fields = json!({"queue": "q", "payload": 1, "options": {"delay_ms": 60_000, "key": "k"}});
    driver.ok("publish", fields).await;
    let cancelled = driver.ok("cancel", named("k")).await;
    assert_eq!(
        (&cancelled["outcome"], &cancelled["was"]),
        (&json!("cancelled"), &json!("delayed"))
    );
}

async fn a_running_job_is_cancelled_as_asked(ground: OpenGround) {
    let mut driver = ground.driver().await;
    ground.client.publish("q", "key=k", "x").await.expect(201);
    let lease = ground.client.reserve("q", 1).await[0]["lease"].clone();
    let refused = driver.error("cancel", named("k")).await;
    assert_eq!(refused["code"], "job_running", "{refused}");
    let asked = driver
        .ok("cancel", with(named("k"), json!({"running": "ask"})))
        .await;
    assert_eq!(asked["outcome"], "cancel_requested");
    let touched = driver.ok("touch", json!({"leases": [lease]})).await;
    assert_eq!(touched[0]["cancel_requested"], true);
    let revoked = driver
        .ok("cancel", with(named("k"), json!({"running": "revoke"})))
        .await;
    assert_eq!(revoked["outcome"], "revoked");
}

async fn jobs_are_listed_in_pages(ground: OpenGround) {
    let mut driver = ground.driver().await;
    for tens in 0..25 {
        let jobs: Vec<Value> = (0..10)
            .map(|ones| json!({"payload": 1, "options": {"key": format!("job-{tens}-{ones}"), "delay_ms": 60_000}}))
            .collect();
        driver
            .ok("publish_batch", json!({"queue": "q", "jobs": jobs}))
            .await;
    }
    let filter = json!({"state": "delayed", "key_prefix": "job-1"});
    let listed = driver
        .ok(
            "list_jobs",
            json!({"queue": "q", "filter": filter, "page_size": 50}),
        )
        .await;
    let listed = listed.as_array().unwrap();
    assert_eq!(listed.len(), 110);
    assert!(listed.iter().all(|job| {
        job["key"]
            .as_str()
            .is_some_and(|key| key.starts_with("job-1"))
    }));
}

async fn many_jobs_are_acted_on(ground: OpenGround) {
    let mut driver = ground.driver().await;
    let jobs: Vec<Value> = (0..150)
        .map(|_| json!({"payload": 1, "options": {"delay_ms": 60_000}}))
        .collect();
    driver
        .ok("publish_batch", json!({"queue": "q", "jobs": jobs}))
        .await;
    let act = json!({"queue": "q", "action": "cancel", "filter": {"state": "delayed"}});
    let counted = driver
        .ok("act", with(act.clone(), json!({"dry_run": true})))
        .await;
    assert_eq!(
        (&counted["matched"], &counted["changed"]),
        (&json!(150), &json!(0))
    );
    let acted = driver.ok("act", act).await;
    assert_eq!(acted["changed"], 150, "{acted}");
}

async fn a_result_is_read(ground: OpenGround) {
    let mut driver = ground.driver().await;
    let fields = json!({"queue": "q", "payload": 1, "options": {"key": "k", "retain_ms": 60_000}});
    let published = driver.ok("publish", fields).await;
    let early = driver
        .ok("result", with(named("k"), json!({"wait_ms": 100})))
        .await;
    assert_eq!(early, json!({"pending": published["id"]}));
    let job = ground.client.reserve("q", 1).await.remove(0);
    let acked = json!({"leases": [{"lease": job["lease"], "result": {"total": "9.90"}}]});
    ground.client.settle("ack", &acked).await;
    let result = driver
        .ok("result", with(named("k"), json!({"wait_ms": 10_000})))
        .await;
    assert_eq!(result["payload"], json!({"total": "9.90"}), "{result}");
}

async fn a_call_returns_the_result(ground: OpenGround) {
    let mut worker = ground.driver().await;
    worker
        .ok("work", json!({"queues": ["q"], "slots": 1}))
        .await;
    let mut driver = ground.driver().await;
    let payload = json!({"then": "result", "result": {"sum": 7, "of": [3, 4]}});
    let call = json!({"queue": "q", "payload": payload, "wait_ms": 20_000});
    assert_eq!(
        driver.ok("call", call).await,
        json!({"result": {"sum": 7, "of": [3, 4]}})
    );
}

async fn a_call_returns_bytes_and_nothing(ground: OpenGround) {
    let mut driver = ground.driver().await;
    let call = json!({"queue": "q", "payload": 1, "wait_ms": 20_000});
    for (result, expected) in [
        (
            json!({"result_base64": "AP8=", "content_type": "image/png"}),
            json!({"result_base64": "AP8=", "content_type": "image/png"}),
        ),
        (json!({}), json!({"result": null})),
    ] {
        let pending = driver.send("call", call.clone()).await;
        let job = ground.client.reserve("q", 1).await.remove(0);
        let acked = match result {
            Value::Object(fields) if fields.is_empty() => job["lease"].clone(),
            fields => with(json!({"lease": job["lease"]}), fields),
        };
        ground
            .client
            .settle("ack", &json!({"leases": [acked]}))
            .await;
        assert_eq!(pending.ok().await, expected);
    }
}

async fn a_call_without_an_answer_is_pending(ground: OpenGround) {
    let mut driver = ground.driver().await;
    let call = json!({"queue": "q", "payload": 1, "wait_ms": 300, "options": {"key": "k"}});
    let answer = driver.ok("call", call).await;
    assert_eq!(
        answer,
        json!({"pending": ground.shown("q", "k").await["id"]})
    );
}

async fn a_call_of_a_job_that_dies_is_an_error(ground: OpenGround) {
    let mut driver = ground.driver().await;
    let call = json!({"queue": "q", "payload": 1, "wait_ms": 20_000});
    let pending = driver.send("call", call).await;
    let job = ground.client.reserve("q", 1).await.remove(0);
    tokio::time::sleep(Duration::from_millis(50)).await;
    let failed = json!({"leases": [{"lease": job["lease"], "error": "never", "dead": true}]});
    ground.client.settle("fail", &failed).await;
    let error = pending.error().await;
    assert_eq!(
        (&error["class"], &error["code"]),
        (&json!("ConflictError"), &json!("job_dead"))
    );
}
