//! Limits that queues share: `/v1/NAMESPACE/limits`, and the policies that name them.

use serde_json::{Value, json};
use tidegate_testkit::{Answer, NativeClient, Stack};

async fn put(client: &NativeClient, name: &str, headers: &[(&str, &str)], rate: &Value) -> Answer {
    let path = format!("/limits/{name}");
    let json = [("Content-Type", "application/json")];
    let body = rate.to_string();
    let headers = [&json[..], headers].concat();
    client.send("PUT", &path, &headers, body.as_bytes()).await
}

async fn delete(client: &NativeClient, name: &str, headers: &[(&str, &str)]) -> Answer {
    let path = format!("/limits/{name}");
    client.send("DELETE", &path, headers, b"").await
}

fn refused(answer: Answer, status: u16, code: &str) -> Value {
    let problem: Value = answer.expect(status).json();
    assert_eq!(problem["code"], code);
    problem
}

fn etag(answer: &Answer) -> String {
    answer.header("etag").unwrap().to_owned()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_limit_is_set_shown_listed_and_deleted() {
    let stack = Stack::builder().pumps(0).start().await;
    let client = NativeClient::new(stack.api(0), "shop").await;
    refused(client.get("/limits/smtp").await, 404, "limit_not_found");
    let created = put(&client, "smtp", &[], &json!({"jobs": 100, "per": "2s"})).await;
    let created = created.expect(201);
    let shown = client.get("/limits/smtp").await.expect(200);
    assert_eq!(
        (shown.json(), etag(&shown)),
        (created.json(), etag(&created))
    );
    let rate = json!({"jobs": 100, "per_ms": 2000});
    let revision = etag(&shown).trim_matches('"').to_owned();
    let expected = json!({"name": "smtp", "revision": revision, "rate": rate});
    assert_eq!(shown.json(), expected);

    put(&client, "a", &[], &json!({"jobs": 1}))
        .await
        .expect(201);
    let first = client.get("/limits?limit=1").await.expect(200).json();
    assert_eq!(
        (&first["items"][0]["name"], &first["next"]),
        (&json!("a"), &json!("a"))
    );
    assert_eq!(first["items"][0]["rate"]["per_ms"], 1000);
    let second = client.get("/limits?cursor=a").await.expect(200).json();
    assert_eq!(
        (&second["items"][0], &second["next"]),
        (&expected, &Value::Null)
    );
    let other = NativeClient::new(stack.api(0), "other").await;
    let empty = other.get("/limits").await.expect(200).json();
    assert_eq!(empty["items"], json!([]));

    let old = [("If-Match", etag(&created))];
    let old = [(old[0].0, old[0].1.as_str())];
    let replaced = put(&client, "smtp", &old, &json!({"jobs": 7}))
        .await
        .expect(200);
    assert_eq!(replaced.json()["rate"], json!({"jobs": 7, "per_ms": 1000}));
    let stale = put(&client, "smtp", &old, &json!({"jobs": 8})).await;
    refused(stale, 412, "version_mismatch");
    let new = [("If-None-Match", "*")];
    let taken = put(&client, "smtp", &new, &json!({"jobs": 8})).await;
    refused(taken, 412, "version_mismatch");
    refused(delete(&client, "smtp", &old).await, 412, "version_mismatch");
    delete(&client, "smtp", &[]).await.expect(200);
    refused(delete(&client, "smtp", &[]).await, 404, "limit_not_found");

    for (rate, field) in [
        (json!({}), "jobs"),
        (json!({"jobs": 0}), "jobs"),
        (json!({"jobs": 1_000_001}), "jobs"),
        (json!({"jobs": 1, "per": "99ms"}), "per"),
        (json!({"jobs": 1, "per": "25h"}), "per"),
    ] {
        let invalid = put(&client, "b", &[], &rate).await;
        let problem = refused(invalid, 400, "invalid_parameter");
        assert_eq!(problem["field"], field);
    }
    stack.finish().await;
}

/// A policy that names no limit by mistake would limit nothing, and so would a limit that is deleted.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_policy_names_a_limit_that_exists_and_keeps_it() {
    let stack = Stack::builder().pumps(0).start().await;
    let client = NativeClient::new(stack.api(0), "shop").await;
    let policy = json!({"limit": "smtp"});
    for method in ["PUT", "PATCH"] {
        let answer = client.call(method, "/queues/mails/policy", &policy).await;
        let problem = refused(answer, 400, "invalid_parameter");
        let detail = problem["detail"].as_str().unwrap();
        assert!(detail.contains("PUT /v1/shop/limits/smtp"), "{detail}");
    }
    put(&client, "smtp", &[], &json!({"jobs": 5}))
        .await
        .expect(201);
    let set = client.call("PUT", "/queues/mails/policy", &policy).await;
    assert_eq!(set.expect(200).json()["limit"], "smtp");
    let problem = refused(delete(&client, "smtp", &[]).await, 409, "limit_in_use");
    assert!(problem["detail"].as_str().unwrap().contains("mails"));
    // Another field of the policy does not need it.
    let other = json!({"rate": {"jobs": 3}, "max_running": 2});
    let changed = client.call("PATCH", "/queues/mails/policy", &other).await;
    let changed = changed.expect(200).json();
    assert_eq!(
        (&changed["limit"], &changed["rate"]["jobs"]),
        (&json!("smtp"), &json!(3))
    );
    let none = json!({"limit": null});
    let changed = client.call("PATCH", "/queues/mails/policy", &none).await;
    assert_eq!(changed.expect(200).json()["limit"], Value::Null);
    delete(&client, "smtp", &[]).await.expect(200);
    stack.finish().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn limits_need_the_scopes_of_policies() {
    let stack = Stack::builder().pumps(0).start().await;
    let reader = NativeClient::with_scopes(stack.api(0), "shop", &["read"]).await;
    let set = put(&reader, "smtp", &[], &json!({"jobs": 5})).await;
    refused(set, 403, "scope_missing");
    refused(delete(&reader, "smtp", &[]).await, 403, "scope_missing");
    reader.get("/limits").await.expect(200);
    let operator = NativeClient::operator(stack.api(0), "shop");
    let set = operator
        .call("PUT", "/limits/smtp", &json!({"jobs": 5}))
        .await;
    set.expect(201);
    stack.finish().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_damaged_limit_is_named_and_replaced() {
    let stack = Stack::builder().pumps(0).start().await;
    let client = NativeClient::new(stack.api(0), "shop").await;
    let mut damage = redis::cmd("HSET");
    damage
        .arg("tg:queue_limits")
        .arg("shop/smtp")
        .arg("1.00000000 5");
    let redis = redis::Client::open(stack.redis.url()).unwrap();
    let mut connection = redis.get_connection().unwrap();
    let () = damage.query(&mut connection).unwrap();
    refused(client.get("/limits/smtp").await, 409, "limit_unreadable");
    let listed = client.get("/limits").await.expect(200).json();
    assert_eq!(listed["items"], json!([]));
    put(&client, "smtp", &[], &json!({"jobs": 5}))
        .await
        .expect(200);
    client.get("/limits/smtp").await.expect(200);
    stack.finish().await;
}
