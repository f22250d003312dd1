//! Publishing, showing, changing and cancelling jobs.

use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};
use tidegate_testkit::{NativeClient, Stack};

#[tokio::test]
async fn a_job_is_published_shown_reserved_and_acknowledged() {
    let stack = Stack::builder().start().await;
    let client = NativeClient::new(stack.api(0), "shop").await;
    let headers = [
        ("Content-Type", "application/json"),
        ("Job-Attr-Tenant", "blue"),
    ];
    let path = "/queues/close-unpaid/jobs?delay=500ms&key=order-17&max_attempts=3";
    let published = client
        .send("POST", path, &headers, br#"{"order":17}"#)
        .await;
    let published = published.expect(201).json();
    assert_eq!(published["outcome"], "created");
    assert_eq!(published["state"], "delayed");
    assert_eq!(published["durability"], "memory");
    let by_key = client.get("/queues/close-unpaid/jobs/key:order-17").await;
    let shown = by_key.expect(200).json();
    assert_eq!(shown["run_at"], published["run_at"]);
    assert_eq!(shown["attributes"], json!({"tenant": "blue"}));
    assert_eq!(shown["max_attempts"], 3);
    let by_id = format!(
        "/queues/close-unpaid/jobs/{}",
        published["id"].as_str().unwrap()
    );
    assert_eq!(client.get(&by_id).await.expect(200).json(), shown);
    let payload = client.get(&format!("{by_id}/payload")).await.expect(200);
    assert_eq!(payload.text(), r#"{"order":17}"#);
    assert_eq!(payload.header("content-type"), Some("application/json"));
    assert_eq!(payload.header("x-content-type-options"), Some("nosniff"));
    assert_eq!(payload.header("content-security-policy"), Some("sandbox"));
    let job = &client.reserve("close-unpaid", 5).await[0];
    assert_eq!(job["payload"], json!({"order": 17}));
    assert_eq!(job["key"], "order-17");
    assert_eq!(job["run_at"], published["run_at"]);
    let leases = json!({"leases": [job["lease"]]});
    assert_eq!(
        client.settle("ack", &leases).await,
        [json!({"outcome": "done"})]
    );
    assert_eq!(
        client.settle("ack", &leases).await,
        [json!({"outcome": "gone"})]
    );
    let gone = client.get(&by_id).await.expect(404).json();
    assert_eq!(gone["code"], "job_not_found");
    stack.finish().await;
}

#[tokio::test]
async fn waiting_jobs_are_changed_promoted_and_cancelled() {
    let stack = Stack::builder().start().await;
    let client = NativeClient::new(stack.api(0), "shop").await;
    client.publish("q", "delay=1h&key=a", "x").await.expect(201);
    let job = "/queues/q/jobs/key:a";
    let at = "2099-01-01T00:00:00.000Z";
    let changed = client.call("PATCH", job, &json!({"run_at": at})).await;
    let changed = changed.expect(200).json();
    assert_eq!(
        (&changed["key"], &changed["run_at"]),
        (&json!("a"), &json!(at))
    );
    let promote = format!("{job}/promote");
    for outcome in ["promoted", "already_ready"] {
        let promoted = client.send("POST", &promote, &[], b"").await;
        let promoted = promoted.expect(200).json();
        assert_eq!(promoted["outcome"], outcome);
        assert_eq!(promoted["key"], "a");
    }
    let cancelled = client
        .send("DELETE", job, &[], b"")
        .await
        .expect(200)
        .json();
    assert_eq!(cancelled["outcome"], "cancelled");
    assert_eq!(cancelled["was"], "ready");
    client.send("DELETE", job, &[], b"").await.expect(404);
    stack.finish().await;
}

#[tokio::test]
async fn a_running_job_is_cancelled_as_the_client_wants() {
    let stack = Stack::builder().start().await;
    let client = NativeClient::new(stack.api(0), "shop").await;
    client.publish("q", "key=a", "x").await.expect(201);
    let job = client.reserve("q", 1).await.remove(0);
    let refused = client
        .send("DELETE", "/queues/q/jobs/key:a", &[], b"")
        .await;
    assert_eq!(refused.expect(409).json()["code"], "job_running");
    let cancel = |how: &str| format!("/queues/q/jobs/key:a?running={how}");
    let asked = client.send("DELETE", &cancel("ask"), &[], b"").await;
    assert_eq!(asked.expect(202).json()["outcome"], "cancel_requested");
    let leases = json!({"leases": [job["lease"]]});
    let touched = &client.settle("touch", &leases).await[0];
    assert_eq!(touched["cancel_requested"], true);
    let released = client.settle("release", &leases).await;
    assert_eq!(released, [json!({"outcome": "cancelled"})]);
    client.publish("q", "key=a", "x").await.expect(201);
    let job = client.reserve("q", 1).await.remove(0);
    let revoked = client.send("DELETE", &cancel("revoke"), &[], b"").await;
    assert_eq!(revoked.expect(200).json()["outcome"], "revoked");
    let leases = json!({"leases": [job["lease"]]});
    assert_eq!(
        client.settle("ack", &leases).await,
        [json!({"outcome": "gone"})]
    );
    stack.finish().await;
}

/// A running job has no due time that could be changed. Each piece of advice leads to a job that is due later.
#[tokio::test]
async fn the_advice_for_a_running_job_helps() {
    let stack = Stack::builder().start().await;
    let client = NativeClient::new(stack.api(0), "shop").await;
    let job = "/queues/q/jobs/key:a";
    let promote = format!("{job}/promote");
    let expect_later = async || {
        let shown = client.get(job).await.expect(200).json();
        assert_eq!(shown["state"], "delayed", "{shown}");
        let run_at: Timestamp = shown["run_at"].as_str().unwrap().parse().unwrap();
        let delay = run_at.duration_since(Timestamp::now());
        assert!(delay > SignedDuration::from_mins(58), "{shown}");
        let promoted = client.send("POST", &promote, &[], b"").await;
        promoted.expect(200);
    };
    client.publish("q", "key=a", "x").await.expect(201);
    for settle in ["ack", "fail", "release"] {
        let leased = client.reserve("q", 1).await.remove(0);
        for (method, path) in [("PATCH", job), ("POST", &promote)] {
            let refused = client.call(method, path, &json!({"delay": "1h"})).await;
            let refused = refused.expect(409).json();
            assert_eq!(refused["code"], "job_running", "{path}");
            let detail = refused["detail"].as_str().unwrap();
            for advice in ["if_exists=replace", "retry_in", "releases it with delay"] {
                assert!(detail.contains(advice), "{detail}");
            }
        }
        let lease = &leased["lease"];
        let body = match settle {
            "ack" => {
                let query = "key=a&delay=1h&if_exists=replace";
                let rerun = client.publish("q", query, "x").await.expect(200).json();
                assert_eq!(rerun["outcome"], "rerun");
                json!({"leases": [lease]})
            }
            "fail" => json!({"leases": [{"lease": lease, "error": "e", "retry_in": "1h"}]}),
            _ => json!({"leases": [lease], "delay": "1h"}),
        };
        client.settle(settle, &body).await;
        expect_later().await;
    }
    stack.finish().await;
}

#[tokio::test]
async fn a_batch_has_a_result_for_each_job() {
    let stack = Stack::builder().pumps(0).start().await;
    let client = NativeClient::new(stack.api(0), "shop").await;
    let jobs = json!({"jobs": [
        {"payload": {"n": 1}},
        {"payload_base64": "AP8=", "delay": "5m", "key": "a"},
        {"payload": 3, "key": "a", "if_exists": "reject"},
        {"payload": 4, "key": "a", "if_exists": "replace", "delay": "1m"},
    ]});
    let answer = client.call("POST", "/queues/q/jobs/batch", &jobs).await;
    let results = answer.expect(200).json()["results"].clone();
    assert_eq!(results[0]["outcome"], "created");
    assert_eq!(results[1]["outcome"], "created");
    assert_eq!(results[2]["problem"]["code"], "key_taken");
    assert_eq!(results[3]["outcome"], "replaced");
    let atomic = json!({"atomic": true, "jobs": [
        {"payload": 5, "key": "b"},
        {"payload": 6, "key": "a", "if_exists": "reject"},
    ]});
    let refused = client.call("POST", "/queues/q/jobs/batch", &atomic).await;
    let refused = refused.expect(409).json();
    assert_eq!(
        (&refused["code"], &refused["field"]),
        (&json!("key_taken"), &json!("jobs[1]"))
    );
    let held = client.get("/queues/q").await.expect(200).json();
    assert_eq!(
        held["jobs"],
        json!({"delayed": 1, "ready": 1, "leased": 0, "dead": 0, "done": 0})
    );
    stack.finish().await;
}

#[tokio::test]
async fn one_job_in_raw_format_is_the_body_of_the_answer() {
    let stack = Stack::builder().pumps(0).start().await;
    let client = NativeClient::new(stack.api(0), "shop").await;
    let raw = json!({"queues": ["q"]});
    client.call("POST", "/reserve/raw", &raw).await.expect(204);
    client
        .publish("q", "key=a", "the payload")
        .await
        .expect(201);
    let answer = client.call("POST", "/reserve/raw", &raw).await.expect(200);
    assert_eq!(answer.text(), "the payload");
    assert_eq!(answer.header("content-type"), Some("text/plain"));
    assert_eq!(answer.header("tidegate-key"), Some("a"));
    let lease = answer.header("tidegate-lease").unwrap();
    let acked = client.settle("ack", &json!({"leases": [lease]})).await;
    assert_eq!(acked, [json!({"outcome": "done"})]);
    stack.finish().await;
}

/// Jobs count as delivered once the body of their answer is written, which here has no bytes.
#[tokio::test]
async fn a_job_without_payload_is_delivered_in_raw_format() {
    let stack = Stack::builder().pumps(0).start().await;
    let client = NativeClient::new(stack.api(0), "shop").await;
    client.publish("q", "key=a", "").await.expect(201);
    let raw = json!({"queues": ["q"]});
    let answer = client.call("POST", "/reserve/raw", &raw).await.expect(200);
    assert_eq!(answer.text(), "");
    let lease = answer.header("tidegate-lease").unwrap();
    let touched = client.settle("touch", &json!({"leases": [lease]})).await;
    assert_eq!(touched[0]["outcome"], "extended");
    let acked = client.settle("ack", &json!({"leases": [lease]})).await;
    assert_eq!(acked, [json!({"outcome": "done"})]);
    stack.finish().await;
}

#[tokio::test]
async fn a_job_that_is_done_is_shown_without_its_payload() {
    let stack = Stack::builder().pumps(0).start().await;
    let client = NativeClient::new(stack.api(0), "shop").await;
    client
        .publish("q", "key=a&retain=1h", "x")
        .await
        .expect(201);
    let lease = client.reserve("q", 1).await.remove(0)["lease"].clone();
    client.settle("ack", &json!({"leases": [lease]})).await;
    let shown = client.get("/queues/q/jobs/key:a").await.expect(200).json();
    assert_eq!(
        (&shown["state"], &shown["key"]),
        (&json!("done"), &json!("a"))
    );
    for absent in ["run_at", "lease_until", "content_type"] {
        assert_eq!(shown.get(absent), None, "{absent}");
    }
    let payload = client.get("/queues/q/jobs/key:a/payload").await;
    assert_eq!(payload.expect(404).json()["code"], "job_not_found");
    stack.finish().await;
}

/// Each call waits for its durability: jobs with keys and without share calls.
#[tokio::test]
async fn a_batch_of_jobs_with_and_without_keys_waits_once_for_its_durability() {
    let stack = Stack::builder().pumps(0).start().await;
    let client = NativeClient::new(stack.api(0), "ns").await;
    let job = |number: u32| match number % 2 {
        0 => json!({"payload": number, "durability": "replica:1"}),
        _ => json!({"payload": number, "durability": "replica:1", "key": format!("k{number}")}),
    };
    let jobs: Vec<Value> = (0..16).map(job).collect();
    let batch = client
        .call("POST", "/queues/q/jobs/batch", &json!({"jobs": jobs}))
        .await;
    // There is no replica.
    let results = batch.expect(200).json();
    let codes = results["results"].as_array().unwrap().iter();
    let codes: Vec<&str> = codes
        .map(|it| it["problem"]["code"].as_str().unwrap_or_default())
        .collect();
    assert_eq!(codes, ["not_durable"; 16], "{results}");
    let waits = stack
        .api(0)
        .metric("tidegate_durable_publishes_total")
        .await;
    assert_eq!(waits, 1.0);
    stack.finish().await;
}

#[tokio::test]
async fn jobs_that_are_revived_or_cancelled_while_they_run_are_counted() {
    let stack = Stack::builder().pumps(0).start().await;
    let client = NativeClient::new(stack.api(0), "ns").await;
    let publish = "key=a&max_attempts=1&if_exists=replace";
    client.publish("q", publish, "1").await.expect(201);
    let fail = async || {
        let lease = client.reserve("q", 1).await[0]["lease"].clone();
        client
            .settle(
                "fail",
                &json!({"leases": [{"lease": lease, "error": "no"}]}),
            )
            .await
    };
    assert_eq!(fail().await[0]["outcome"], "dead");
    let revived = client.publish("q", publish, "2").await;
    assert_eq!(revived.expect(200).json()["outcome"], "revived");
    let respawned = "infra_lmstfy_redis_deadletter_respawn_jobs";
    assert_eq!(stack.api(0).metric(respawned).await, 1.0);
    let lease = client.reserve("q", 1).await[0]["lease"].clone();
    client
        .send("DELETE", "/queues/q/jobs/key:a?running=ask", &[], b"")
        .await
        .expect(202);
    let failed = client
        .settle(
            "fail",
            &json!({"leases": [{"lease": lease, "error": "no"}]}),
        )
        .await;
    assert_eq!(failed[0]["outcome"], "cancelled");
    let deleted = "infra_lmstfy_redis_pool_delete_jobs";
    assert_eq!(stack.api(0).metric(deleted).await, 1.0);
    stack.finish().await;
}
