//! Requests that are refused for what the server or the client has: rate limits, memory, a Redis that cannot sync.

use std::time::Duration;

use serde_json::{Value, json};
use tidegate_testkit::{
    Answer, NO_SERVER, NativeClient, RedisControl, RedisOptions, Stack, eventually,
};

const SOON: Duration = Duration::from_secs(10);

/// Sends a request until it has this status. A unit of a rate limit is given back behind the answer.
async fn until(status: u16, request: impl AsyncFn() -> Answer) -> Answer {
    let attempt = async || match request().await {
        answer if answer.status == status => Ok(answer),
        other => Err(other),
    };
    eventually(&format!("the answer {status}"), SOON, attempt).await
}

#[tokio::test]
async fn the_rate_limit_of_a_token_counts_on_both_wires() {
    let stack = Stack::builder().pumps(0).start().await;
    let queue = stack.queue("q").await;
    let client = NativeClient::with_key(stack.api(0), queue.namespace(), queue.token());
    queue.limit_token(stack.api(0), 2, 2, 3600).await;
    let reserve = async || {
        let body = json!({"queues": ["q"]});
        client.call("POST", "/reserve", &body).await
    };
    // Requests that fail, and reserve calls without a job, use no unit.
    for _ in 0..3 {
        let answer = until(200, &reserve).await.json();
        assert_eq!(answer, json!({"jobs": []}));
        until(400, async || client.publish("q", "delay=x", "1").await).await;
    }
    until(201, async || client.publish("q", "", "1").await).await;
    queue.publish("2").id().await;
    let batch = json!({"jobs": [{"payload": 3}]});
    for refused in [
        client.publish("q", "", "3").await,
        client.call("POST", "/queues/q/jobs/batch", &batch).await,
    ] {
        let refused = refused.expect(429);
        assert_eq!(refused.header("retry-after"), Some("1"));
        let problem = refused.json();
        let found = (&problem["code"], &problem["applied"]);
        assert_eq!(found, (&json!("rate_limited"), &json!("no")));
    }
    assert_eq!(queue.publish("3").send().await.unwrap().status, 429);
    let leased = until(200, &reserve).await.json();
    let leases = json!({"leases": [leased["jobs"][0]["lease"]]});
    queue.consume().job().await.unwrap();
    let refused = reserve().await.expect(429).json();
    assert_eq!(refused["code"], "rate_limited");
    // Other verbs are not limited.
    assert_eq!(
        client.settle("ack", &leases).await,
        [json!({"outcome": "done"})]
    );
    stack.finish().await;
}

/// An API key has no rate limit, whatever limit a token of its namespace has.
#[tokio::test]
async fn an_api_key_has_no_rate_limit() {
    let stack = Stack::builder().pumps(0).start().await;
    let queue = stack.queue("q").await;
    queue.limit_token(stack.api(0), 1, 1, 3600).await;
    let client = NativeClient::new(stack.api(0), queue.namespace()).await;
    for _ in 0..5 {
        client.publish("q", "", "1").await.expect(201);
    }
    stack.finish().await;
}

#[tokio::test]
async fn a_full_redis_refuses_publishes_and_takes_acks() {
    let stack = Stack::builder().pumps(0).start().await;
    let client = NativeClient::new(stack.api(0), "shop").await;
    for options in ["", "key=a"] {
        client.publish("q", options, "x").await.expect(201);
    }
    let jobs = client.reserve("q", 2).await;
    let mut control = RedisControl::connect(&stack.redis.url()).await;
    control.limit_memory(Some(0)).await;
    for options in ["", "key=b", "key=a&if_exists=replace"] {
        let refused = client.publish("q", options, "x").await.expect(507).json();
        let found = (&refused["code"], &refused["applied"]);
        assert_eq!(found, (&json!("storage_full"), &json!("no")), "{options}");
    }
    let leases: Vec<&Value> = jobs.iter().map(|job| &job["lease"]).collect();
    let acked = client.settle("ack", &json!({ "leases": leases })).await;
    assert_eq!(
        acked,
        [json!({"outcome": "done"}), json!({"outcome": "done"})]
    );
    let new = json!({"scopes": ["read"], "description": "x"});
    let refused = client.call("POST", "/keys", &new).await.expect(507).json();
    assert_eq!(refused["code"], "storage_full");
    let operator = NativeClient::operator(stack.api(0), "shop");
    let refused = operator
        .call("POST", "/keys", &new)
        .await
        .expect(507)
        .json();
    assert_eq!(refused["code"], "storage_full");
    control.limit_memory(None).await;
    client.publish("q", "key=b", "x").await.expect(201);
    stack.finish().await;
}

/// As after a failover that the API has not noticed, or with a wrong `url`.
#[tokio::test]
async fn a_replica_refuses_publishes_and_nothing_is_stored() {
    let stack = Stack::builder().pumps(0).start().await;
    let client = NativeClient::new(stack.api(0), "shop").await;
    let queue = stack.queue("q").await;
    client.publish("q", "key=a", "x").await.expect(201);
    let mut control = RedisControl::connect(&stack.redis.url()).await;
    control.replicate(Some(NO_SERVER)).await;
    for options in ["", "key=b", "key=a&if_exists=replace"] {
        let refused = client.publish("q", options, "x").await.expect(503).json();
        let found = (&refused["code"], &refused["applied"]);
        let expected = (&json!("storage_unavailable"), &json!("no"));
        assert_eq!(found, expected, "{options}: {refused}");
    }
    let jobs = json!({"jobs": [{"payload": 1}, {"payload": 1, "key": "c"}]});
    let batch = client.call("POST", "/queues/q/jobs/batch", &jobs).await;
    let batch = batch.expect(200).json();
    for result in batch["results"].as_array().unwrap() {
        assert_eq!(result["problem"]["applied"], "no", "{batch}");
    }
    // The lmstfy wire does not say which.
    let refused = queue.raw("PUT", &queue.path()).await.expect(500);
    assert_eq!(refused.text(), r#"{"error":"internal error"}"#);
    control.replicate(None).await;
    let held = client.get("/queues/q").await.expect(200).json();
    assert_eq!(held["jobs"]["ready"], 1, "{held}");
    stack.finish().await;
}

/// Nothing is stored, although the jobs could be: the client asked for more than this Redis can tell.
#[tokio::test]
async fn a_write_to_disk_that_redis_cannot_confirm_is_refused() {
    let redis = RedisOptions::new().without_append_only_file();
    let stack = Stack::builder().redis(redis).pumps(0);
    let stack = stack
        .api_config("[pool.default]\nunsafe_server = \"warn\"")
        .start()
        .await;
    let client = NativeClient::new(stack.api(0), "shop").await;
    for options in ["durability=fsync", "durability=fsync&key=a"] {
        let refused = client.publish("q", options, "x").await.expect(400).json();
        let found = (&refused["code"], &refused["field"]);
        let expected = (&json!("invalid_parameter"), &json!("durability"));
        assert_eq!(found, expected, "{refused}");
        assert!(refused["detail"].as_str().unwrap().contains("WAITAOF"));
    }
    let held = client.get("/queues/q").await.expect(200).json();
    assert_eq!(held["jobs"]["ready"], 0);
    client.publish("q", "", "x").await.expect(201);
    stack.finish().await;
}
