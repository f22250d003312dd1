//! API keys: what they allow, and that a revocation ends what they are used for.

use std::time::Duration;

use serde_json::json;
use tidegate_testkit::{NativeClient, Stack};

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
