//! Priorities on the native wire.

use std::time::Duration;

use serde_json::{Value, json};
use tidegate_testkit::{NativeClient, Stack, eventually};

const SOON: Duration = Duration::from_secs(30);

async fn publish(client: &NativeClient, options: &str, payload: u64) {
    let path = format!("/queues/q/jobs?{options}");
    let published = client.call("POST", &path, &json!(payload)).await;
    published.expect(201);
}

async fn order(client: &NativeClient, count: u16) -> Vec<String> {
    let jobs = client.reserve("q", count).await;
    let payloads = jobs.iter().map(|job| job["payload"].to_string());
    payloads.collect()
}

#[tokio::test]
async fn jobs_of_both_wires_are_delivered_by_priority() {
    let stack = Stack::builder().start().await;
    let client = NativeClient::new(stack.api(0), "shop").await;
    let lmstfy = stack.queue_in("shop", "q").await;
    lmstfy.publish("\"lmstfy\"").ttl_s(600).id().await;
    publish(&client, "priority=1", 1).await;
    let header = [
        ("Tidegate-Priority", "3"),
        ("Content-Type", "application/json"),
    ];
    let published = client.send("POST", "/queues/q/jobs", &header, b"3").await;
    published.expect(201);
    let batch = json!({"jobs": [{"payload": 4, "priority": 4}, {"payload": 0}]});
    let batch = client.call("POST", "/queues/q/jobs/batch", &batch).await;
    batch.expect(200);
    assert_eq!(order(&client, 3).await, ["4", "3", "1"]);
    assert_eq!(order(&client, 3).await.len(), 2);
    for (priority, detail) in [("5", "from 0 to 4"), ("-1", ""), ("high", "whole number")] {
        let refused = client
            .publish("q", &format!("priority={priority}"), "x")
            .await;
        let problem = refused.expect(400).json();
        assert_eq!(problem["field"], "priority");
        assert!(problem["detail"].to_string().contains(detail), "{problem}");
    }
    stack.finish().await;
}

#[tokio::test]
async fn a_job_that_waits_gets_another_priority_and_explain_names_it() {
    let stack = Stack::builder().start().await;
    let client = NativeClient::new(stack.api(0), "shop").await;
    client.publish("q", "", "0").await.expect(201);
    client.reserve("q", 1).await;
    for (options, payload) in [("key=a", 1), ("key=b&priority=2", 2), ("key=c", 3)] {
        publish(&client, options, payload).await;
    }
    let get = async |path: &str| -> Value {
        let answer = client.get(&format!("/queues/q/jobs{path}")).await;
        answer.expect(200).json()
    };
    let explained = get("/key:a/explain").await;
    assert_eq!(explained["cause"], "priority_behind", "{explained}");
    let summary = "1 job of a higher priority is ahead.";
    assert_eq!(explained["summary"], summary);
    let urgent = json!({"priority": 4});
    let change = client.call("PATCH", "/queues/q/jobs/key:c", &urgent).await;
    change.expect(200);
    assert_eq!(get("/key:c").await["priority"], 4);
    assert_eq!(get("/key:a").await["priority"], Value::Null);
    let listed = get("?state=ready").await;
    let priorities: Vec<&Value> = listed["items"]
        .as_array()
        .unwrap()
        .iter()
        .map(|job| &job["priority"])
        .collect();
    assert_eq!(priorities, [&Value::Null, &json!(4), &json!(2)]);
    let act = json!({"do": "change", "filter": {"key_prefix": "b"}, "change": {"priority": 0}});
    client
        .call("POST", "/queues/q/jobs/act", &act)
        .await
        .expect(200);
    assert_eq!(order(&client, 3).await, ["3", "1", "2"]);
    stack.finish().await;
}

#[tokio::test]
async fn the_jobs_of_a_schedule_have_its_priority() {
    let stack = Stack::builder().start().await;
    let client = NativeClient::new(stack.api(0), "shop").await;
    let job = json!({"payload": 1, "priority": 3});
    let schedule = json!({"queue": "q", "every": "100ms", "job": job});
    let set = client.call("PUT", "/schedules/often", &schedule).await;
    set.expect(201);
    let published = async || {
        let listed = client.get("/queues/q/jobs?state=ready").await;
        let listed = listed.expect(200).json();
        match &listed["items"][0] {
            Value::Null => Err(listed),
            job => Ok(job.clone()),
        }
    };
    let job = eventually("the schedule has published", SOON, published).await;
    assert_eq!(job["priority"], 3, "{job}");
    stack.finish().await;
}
