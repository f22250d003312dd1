//! Whole queues: lists, the dead letter, deleting.

use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tidegate_testkit::{NativeClient, Stack, eventually};

const ENOUGH: Duration = Duration::from_secs(20);

/// Publishes jobs and lets each fail for good.
async fn bury(client: &NativeClient, queue: &str, jobs: usize) {
    for _ in 0..jobs {
        client.publish(queue, "", "x").await.expect(201);
    }
    let mut dead = 0;
    while dead < jobs {
        let taken = client.reserve(queue, 50).await;
        let leases: Vec<Value> = taken
            .iter()
            .map(|job| json!({"lease": job["lease"], "error": "no", "dead": true}))
            .collect();
        dead += leases.len();
        client.settle("fail", &json!({ "leases": leases })).await;
    }
}

async fn jobs(client: &NativeClient, queue: &str) -> Value {
    let shown = client.get(&format!("/queues/{queue}")).await;
    shown.expect(200).json()["jobs"].clone()
}

#[tokio::test]
async fn queues_of_the_namespace_are_listed_in_pages() {
    let stack = Stack::builder().pumps(0).start().await;
    let client = NativeClient::new(stack.api(0), "shop").await;
    let other = NativeClient::new(stack.api(0), "other").await;
    other.publish("theirs", "", "x").await.expect(201);
    for queue in ["c", "a", "b"] {
        client.publish(queue, "delay=1h", "x").await.expect(201);
    }
    let all = client.get("/queues").await.expect(200).json();
    let names = |page: &Value| -> Vec<String> {
        let items = page["items"].as_array().unwrap().iter();
        items
            .map(|it| it["queue"].as_str().unwrap().to_owned())
            .collect()
    };
    assert_eq!(names(&all), ["a", "b", "c"]);
    assert_eq!(all["items"][0]["jobs"]["delayed"], 1);
    assert_eq!(all["next"], Value::Null);
    let first = client.get("/queues?limit=2").await.expect(200).json();
    assert_eq!(first["items"].as_array().unwrap().len(), 2);
    let path = format!("/queues?limit=2&cursor={}", first["next"].as_str().unwrap());
    let second = client.get(&path).await.expect(200).json();
    assert_eq!(second["next"], Value::Null);
    let mut both = [names(&first), names(&second)].concat();
    both.sort();
    assert_eq!(both, ["a", "b", "c"]);
    for cursor in ["%25", "0.0", "0.0.x:0", "2.0.0:0"] {
        let wrong = client.get(&format!("/queues?cursor={cursor}")).await;
        assert_eq!(wrong.expect(400).json()["field"], "cursor");
    }
    stack.finish().await;
}

#[tokio::test]
async fn a_queue_is_deleted_only_when_it_is_empty() {
    let stack = Stack::builder().pumps(0).start().await;
    let client = NativeClient::new(stack.api(0), "shop").await;
    let policy = json!({"max_jobs": 5});
    client
        .call("PUT", "/queues/q/policy", &policy)
        .await
        .expect(200);
    client.publish("q", "key=a", "x").await.expect(201);
    let refused = client.send("DELETE", "/queues/q", &[], b"").await;
    assert_eq!(refused.expect(409).json()["code"], "queue_not_empty");
    client
        .send("DELETE", "/queues/q/jobs/key:a", &[], b"")
        .await
        .expect(200);
    let deleted = client.send("DELETE", "/queues/q", &[], b"").await;
    assert_eq!(deleted.expect(200).json(), json!({"outcome": "deleted"}));
    let policy = client.get("/queues/q/policy").await.expect(200).json();
    assert_eq!(policy["max_jobs"], Value::Null);
    stack.finish().await;
}

#[tokio::test]
async fn dead_jobs_come_back_with_all_their_attempts() {
    let stack = Stack::builder().pumps(0).start().await;
    let client = NativeClient::new(stack.api(0), "shop").await;
    bury(&client, "q", 3).await;
    let two = client
        .call("POST", "/queues/q/respawn", &json!({"limit": 2}))
        .await;
    assert_eq!(
        two.expect(200).json(),
        json!({"outcome": "respawned", "respawned": 2})
    );
    let job = client.reserve("q", 1).await.remove(0);
    assert_eq!((&job["failures"], &job["attempt"]), (&json!(0), &json!(2)));
    client
        .call("POST", "/queues/q/respawn", &json!({"limit": 0}))
        .await
        .expect(400);
    let purged = client
        .call("POST", "/queues/q/purge", &json!({"state": "dead"}))
        .await;
    assert_eq!(purged.expect(200).json()["deleted"], 1);
    stack.finish().await;
}

#[tokio::test]
async fn dead_jobs_come_back_at_a_rate() {
    let stack = Stack::builder().start().await;
    let client = NativeClient::new(stack.api(0), "shop").await;
    bury(&client, "q", 10).await;
    let body = json!({"rate_per_second": 5});
    let began_at = Instant::now();
    client
        .call("POST", "/queues/q/respawn", &body)
        .await
        .expect(200);
    assert!(jobs(&client, "q").await["delayed"].as_u64() >= Some(8));
    let mut came = 0;
    while came < 10 {
        came += client.reserve("q", 10).await.len();
    }
    // The last one is due 1.8 s after the first.
    assert!(began_at.elapsed() >= Duration::from_millis(1800));
    stack.finish().await;
}

#[tokio::test]
async fn dead_jobs_are_deleted_when_they_are_older_than_the_queue_keeps_them() {
    let stack = Stack::builder().start().await;
    let client = NativeClient::new(stack.api(0), "shop").await;
    for queue in ["kept", "brief"] {
        bury(&client, queue, 3).await;
    }
    let policy = json!({"keep_dead": "1s"});
    client
        .call("PATCH", "/queues/brief/policy", &policy)
        .await
        .expect(200);
    eventually(
        "old dead jobs are deleted",
        ENOUGH * 2,
        async || match jobs(&client, "brief").await {
            held if held["dead"] == 0 => Ok(()),
            held => Err(held),
        },
    )
    .await;
    assert_eq!(jobs(&client, "kept").await["dead"], 3);
    // The pump counts them after the last of its calls, between which it pauses.
    eventually("deleted jobs are counted", ENOUGH, async || {
        let counted = stack.pump(0).metric("tidegate_pump_deleted_dead_total");
        match counted.await {
            counted if counted >= 3.0 => Ok(()),
            counted => Err(counted),
        }
    })
    .await;
    stack.finish().await;
}

#[tokio::test]
async fn a_batch_fills_the_room_that_a_queue_has() {
    let stack = Stack::builder().pumps(0).start().await;
    let client = NativeClient::new(stack.api(0), "shop").await;
    let policy = json!({"max_jobs": 5});
    let changed = client.call("PATCH", "/queues/q/policy", &policy).await;
    changed.expect(200);
    let batch: Vec<Value> = (0..8).map(|n| json!({"payload": n})).collect();
    let path = "/queues/q/jobs/batch";
    let atomic = json!({"jobs": batch, "atomic": true});
    let refused = client.call("POST", path, &atomic).await.expect(429).json();
    assert_eq!(refused["code"], "queue_full");
    let answer = client.call("POST", path, &json!({ "jobs": batch })).await;
    let results = answer.expect(200).json()["results"].clone();
    for (index, result) in results.as_array().unwrap().iter().enumerate() {
        if index < 5 {
            assert_eq!(result["outcome"], "created", "{index}");
        } else {
            assert_eq!(result["problem"]["code"], "queue_full", "{index}");
        }
    }
    let taken = client.reserve("q", 8).await;
    let payloads: Vec<&Value> = taken.iter().map(|job| &job["payload"]).collect();
    assert_eq!(payloads, [0, 1, 2, 3, 4]);
    stack.finish().await;
}

#[tokio::test]
async fn a_damaged_policy_is_replaced() {
    let stack = Stack::builder().pumps(0).start().await;
    let client = NativeClient::new(stack.api(0), "shop").await;
    let path = "/queues/q/policy";
    let policy = json!({"max_jobs": 5});
    client.call("PUT", path, &policy).await.expect(200);
    let mut damage = redis::pipe();
    damage.hset("tg:policies", "shop/q", "damaged").ignore();
    damage.hdel("tg:policies", "#").ignore();
    let redis = redis::Client::open(stack.redis.url()).unwrap();
    damage.exec(&mut redis.get_connection().unwrap()).unwrap();
    for refused in [
        client.get(path).await,
        client.call("PATCH", path, &policy).await,
    ] {
        assert_eq!(refused.expect(409).json()["code"], "policy_unreadable");
    }
    let replaced = client.call("PUT", path, &policy).await.expect(200).json();
    assert_eq!(replaced["max_jobs"], 5);
    client.get(path).await.expect(200);
    let too_long = json!({"keep_dead": "31d", "retain": "8d"});
    let refused = client.call("PATCH", path, &too_long).await.expect(400);
    let field = refused.json()["field"].clone();
    assert!(!field.as_str().unwrap().ends_with("_ms"), "{field}");
    stack.finish().await;
}

#[tokio::test]
async fn a_closed_queue_answers_repeated_requests() {
    let stack = Stack::builder().pumps(0).start().await;
    let client = NativeClient::new(stack.api(0), "shop").await;
    let publish = async |key: &str, payload: &[u8]| {
        let headers = [("Idempotency-Key", key)];
        client
            .send("POST", "/queues/q/jobs", &headers, payload)
            .await
    };
    let first = publish("r1", b"x").await.expect(201).json();
    let policy = json!({"closed": true});
    let changed = client.call("PATCH", "/queues/q/policy", &policy).await;
    changed.expect(200);
    let again = publish("r1", b"x").await.expect(200);
    assert_eq!(again.header("tidegate-replayed"), Some("true"));
    assert_eq!(again.json()["id"], first["id"]);
    let other = publish("r1", b"y").await.expect(422).json();
    assert_eq!(other["code"], "idempotency_key_reused");
    let closed = publish("r2", b"x").await.expect(409).json();
    assert_eq!(closed["code"], "queue_closed");
    let jobs =
        json!({"atomic": true, "jobs": [{"payload": 1, "idempotency_key": "r3"}, {"payload": 2}]});
    let batch = client.call("POST", "/queues/q/jobs/batch", &jobs).await;
    assert_eq!(batch.expect(409).json()["code"], "queue_closed");
    assert_eq!(self::jobs(&client, "q").await["ready"], 1);
    stack.finish().await;
}

#[tokio::test]
async fn a_policy_is_created_once_with_if_none_match() {
    let stack = Stack::builder().pumps(0).start().await;
    let client = NativeClient::new(stack.api(0), "ns").await;
    let path = "/queues/q/policy";
    let headers = [("Content-Type", "application/json"), ("If-None-Match", "*")];
    let created = client
        .send("PUT", path, &headers, br#"{"max_jobs":5}"#)
        .await;
    created.expect(200);
    let again = client
        .send("PUT", path, &headers, br#"{"closed":true}"#)
        .await;
    assert_eq!(again.expect(412).json()["code"], "version_mismatch");
    let no_etag = [("If-None-Match", "\"0\"")];
    let refused = client.send("PUT", path, &no_etag, b"{}").await;
    assert_eq!(refused.expect(400).json()["field"], "if-none-match");
    assert_eq!(client.get(path).await.expect(200).json()["max_jobs"], 5);
    stack.finish().await;
}
