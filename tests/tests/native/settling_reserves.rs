//! Reserve calls that settle jobs before they reserve others.

use serde_json::{Value, json};
use tidegate_testkit::{NativeClient, Stack, consistency};

async fn reserve(client: &NativeClient, body: &Value) -> Value {
    client
        .call("POST", "/reserve", body)
        .await
        .expect(200)
        .json()
}

fn leases(reserved: &Value) -> Vec<Value> {
    let jobs = reserved["jobs"].as_array().unwrap().iter();
    jobs.map(|job| job["lease"].clone()).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_reserve_settles_jobs_and_returns_the_next_ones() {
    let stack = Stack::builder().start().await;
    let client = NativeClient::new(stack.api(0), "shop").await;
    for number in 0..6 {
        let options = format!("key=k{number}&retain=1h");
        client.publish("q", &options, "x").await.expect(201);
    }
    let first = reserve(&client, &json!({"queues": ["q"], "max_jobs": 4})).await;
    assert!(first.get("settled").is_none());
    let held = leases(&first);
    let body = json!({"queues": ["q"], "max_jobs": 9, "settle": {
        "ack": [held[0], {"lease": held[1], "result": {"sum": 7}}],
        "fail": [{"lease": held[2], "error": "no", "retry_in": "1h"}, {"lease": held[3], "error": "never", "dead": true}],
    }});
    let second = reserve(&client, &body).await;
    assert_eq!(leases(&second).len(), 2);
    let settled = &second["settled"];
    assert_eq!(
        settled["ack"],
        json!([{"outcome": "done"}, {"outcome": "done"}])
    );
    assert_eq!(settled["fail"][0]["outcome"], "retry");
    assert_eq!(settled["fail"][1], json!({"outcome": "dead"}));
    let result = client.get("/queues/q/jobs/key:k1/result").await.expect(200);
    assert_eq!(result.json(), json!({"sum": 7}));

    // A repetition changes nothing, and an answer without jobs has the outcomes too.
    let third = reserve(&client, &body).await;
    assert_eq!(leases(&third).len(), 0);
    assert_eq!(
        third["settled"]["ack"],
        json!([{"outcome": "gone"}, {"outcome": "gone"}])
    );
    assert_eq!(
        third["settled"]["fail"],
        json!([{"outcome": "lost"}, {"outcome": "lost"}])
    );
    let empty = json!({"queues": ["q"], "settle": {}});
    let empty = reserve(&client, &empty).await;
    assert_eq!(empty["settled"], json!({"ack": [], "fail": []}));
    consistency::check(&stack.redis.url()).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_reserve_that_cannot_settle_changes_nothing() {
    let stack = Stack::builder().start().await;
    let client = NativeClient::new(stack.api(0), "shop").await;
    for _ in 0..2 {
        client.publish("q", "", "x").await.expect(201);
    }
    let held = leases(&reserve(&client, &json!({"queues": ["q"]})).await);
    let lease = &held[0];
    for (settle, field) in [
        (json!({"ack": [lease, "nonsense"]}), "settle.ack[1]"),
        (
            json!({"ack": [lease], "fail": [{"lease": "nonsense", "error": ""}]}),
            "settle.fail[0].lease",
        ),
        (
            json!({"ack": [lease], "fail": [{"lease": lease, "error": "", "dead": true, "retry_in": "1s"}]}),
            "settle.fail[0].dead",
        ),
        (
            json!({"ack": [{"lease": lease, "content_type": "text/plain"}]}),
            "settle.ack[0].content_type",
        ),
        (json!({"ack": vec![lease; 1001]}), "settle.ack"),
    ] {
        let body = json!({"queues": ["q"], "settle": settle});
        let refused = client.call("POST", "/reserve", &body).await.expect(400);
        assert_eq!(refused.json()["field"], field, "{body}");
    }
    for (raw, field) in [
        (
            json!({"queues": ["q"], "settle": {"ack": [lease]}}),
            "settle",
        ),
        (json!({"queues": ["q"], "max_jobs": 2}), "max_jobs"),
    ] {
        let refused = client.call("POST", "/reserve/raw", &raw).await.expect(400);
        assert_eq!(refused.json()["field"], field);
    }
    let settled = client.settle("ack", &json!({"leases": [lease]})).await;
    assert_eq!(settled[0]["outcome"], "done");
    let left = reserve(&client, &json!({"queues": ["q"], "max_jobs": 9})).await;
    assert_eq!(leases(&left).len(), 1);
}
