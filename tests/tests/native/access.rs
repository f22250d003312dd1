//! API keys: what they allow, and that a revocation ends what they are used for.

use std::time::Duration;

use serde_json::json;
use tidegate_testkit::{NativeClient, Stack, eventually};

#[tokio::test]
async fn a_route_needs_its_scope_and_its_namespace() {
    let stack = Stack::builder().pumps(0).start().await;
    let api = stack.api(0);
    let producer = NativeClient::with_scopes(api, "shop", &["publish"]).await;
    producer.publish("q", "key=a", "x").await.expect(201);
    producer.get("/queues/q/jobs/key:a").await.expect(200);
    for (method, path, body) in [
        ("GET", "/queues/q/jobs/key:a/payload", json!({})),
        ("GET", "/queues/q", json!({})),
        ("POST", "/reserve", json!({"queues": ["q"]})),
        ("POST", "/ack", json!({"leases": ["x"]})),
        ("PATCH", "/queues/q/policy", json!({"paused": true})),
        ("POST", "/queues/q/purge", json!({"state": "ready"})),
    ] {
        let refused = producer.call(method, path, &body).await.expect(403).json();
        assert_eq!(refused["code"], "scope_missing", "{path}");
    }
    let key = NativeClient::with_scopes(api, "other", &["publish"]).await;
    let elsewhere = NativeClient::with_scopes(api, "shop", &["publish"]).await;
    drop((key, elsewhere));
    let unknown = NativeClient::with_key(api, "shop", "tg_AAAAAAAAAAAA_0000000000000000000000000A");
    let refused = unknown.publish("q", "", "x").await.expect(401);
    assert_eq!(refused.header("www-authenticate"), Some("Bearer"));
    stack.finish().await;
}

#[tokio::test]
async fn the_history_of_a_job_needs_the_scope_read() {
    let stack = Stack::builder().pumps(0).start().await;
    let reader = NativeClient::new(stack.api(0), "shop").await;
    let producer = NativeClient::with_scopes(stack.api(0), "shop", &["publish"]).await;
    producer.publish("q", "key=a", "x").await.expect(201);
    let job = reader.reserve("q", 1).await.remove(0);
    let failed = json!({"leases": [{"lease": job["lease"], "error": "card 4711", "dead": true}]});
    reader.settle("fail", &failed).await;
    let path = "/queues/q/jobs/key:a";
    let shown = producer.get(path).await.expect(200).json();
    assert_eq!(shown["reason"], "permanent");
    assert_eq!(shown.get("history"), None, "{shown}");
    let shown = reader.get(path).await.expect(200).json();
    assert_eq!(shown["history"][0]["error"], "card 4711");
    stack.finish().await;
}

#[tokio::test]
async fn keys_are_made_within_the_key_that_makes_them_and_revoked() {
    let stack = Stack::builder().pumps(0).start().await;
    let admin = NativeClient::new(stack.api(0), "shop").await;
    let new = json!({"scopes": ["publish", "consume"], "description": "a worker"});
    let created = admin.call("POST", "/keys", &new).await.expect(201).json();
    let secret = created["secret"].as_str().unwrap();
    let worker = NativeClient::with_key(stack.api(0), "shop", secret);
    worker.publish("q", "", "x").await.expect(201);
    let past =
        json!({"scopes": ["publish"], "description": "x", "expires_at": "2020-01-01T00:00:00Z"});
    let refused = admin.call("POST", "/keys", &past).await.expect(400).json();
    assert_eq!(refused["field"], "expires_at");
    let detail = refused["detail"].as_str().unwrap();
    assert!(detail.ends_with('Z'), "the time as in requests: {detail}");
    let beyond = json!({"scopes": ["publish"], "description": "x", "namespace": "*"});
    let refused = admin
        .call("POST", "/keys", &beyond)
        .await
        .expect(403)
        .json();
    assert_eq!(refused["code"], "namespace_forbidden");
    worker.call("POST", "/keys", &new).await.expect(403);
    let listed = admin.get("/keys").await.expect(200).json();
    assert_eq!(listed["items"].as_array().unwrap().len(), 2);
    assert!(!listed.to_string().contains(secret));
    let waiting = worker.clone();
    let body = json!({"queues": ["empty"], "wait": "60s"});
    let waiting = tokio::spawn(async move { waiting.call("POST", "/reserve", &body).await });
    let id = created["key"]["id"].as_str().unwrap();
    let revoked = admin.send("DELETE", &format!("/keys/{id}"), &[], b"").await;
    assert_eq!(revoked.expect(200).json()["outcome"], "revoked");
    let ended = tokio::time::timeout(Duration::from_secs(20), waiting).await;
    ended.unwrap().unwrap().expect(401);
    worker.publish("q", "", "x").await.expect(401);
    admin
        .send("DELETE", &format!("/keys/{id}"), &[], b"")
        .await
        .expect(404);
    stack.finish().await;
}

/// Also a request that waits ends then, and no answer of the cache outlives the key.
#[tokio::test]
async fn an_expired_key_is_refused_and_ends_its_waits() {
    let stack = Stack::builder().pumps(0).start().await;
    let admin = NativeClient::new(stack.api(0), "shop").await;
    let expires_at = admin.publish("q", "delay=2s", "x").await.expect(201).json();
    let new = json!({
        "scopes": ["publish", "consume"], "description": "a visitor", "expires_at": expires_at["run_at"],
    });
    let created = admin.call("POST", "/keys", &new).await.expect(201).json();
    let secret = created["secret"].as_str().unwrap();
    let visitor = NativeClient::with_key(stack.api(0), "shop", secret);
    visitor.publish("q", "", "x").await.expect(201);
    let body = json!({"queues": ["empty"], "wait": "60s"});
    let ended = tokio::time::timeout(
        Duration::from_secs(30),
        visitor.call("POST", "/reserve", &body),
    );
    assert_eq!(
        ended.await.unwrap().expect(401).json()["code"],
        "key_invalid"
    );
    eventually(
        "the key is refused",
        Duration::from_secs(10),
        async || match visitor.publish("q", "", "x").await {
            answer if answer.status == 401 => Ok(()),
            answer => Err(answer),
        },
    )
    .await;
    stack.finish().await;
}
