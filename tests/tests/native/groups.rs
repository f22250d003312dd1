//! Groups on the native wire.

use std::time::Duration;

use serde_json::{Value, json};
use tidegate_testkit::{NativeClient, Stack, eventually};

const SOON: Duration = Duration::from_secs(30);

async fn publish(client: &NativeClient, options: &str, payload: &str) {
    let path = format!("/queues/q/jobs?{options}");
    let published = client.call("POST", &path, &json!(payload)).await;
    published.expect(201);
}

async fn set_limit(client: &NativeClient, most: Value) {
    let policy = json!({"groups": {"max_running": most}});
    let set = client.call("PATCH", "/queues/q/policy", &policy).await;
    assert_eq!(set.expect(200).json()["groups"], policy["groups"]);
}

/// Up to 8 jobs, for which it waits.
async fn take(client: &NativeClient, wait: &str) -> Vec<Value> {
    let body = json!({"queues": ["q"], "max_jobs": 8, "wait": wait});
    let answer = client.call("POST", "/reserve", &body).await.expect(200);
    serde_json::from_value(answer.json()["jobs"].clone()).unwrap()
}

fn payloads(jobs: &[Value]) -> Vec<&str> {
    let payloads = jobs.iter().map(|job| job["payload"].as_str().unwrap());
    payloads.collect()
}

#[tokio::test]
async fn groups_take_turns_whatever_their_jobs_were_published_with() {
    let stack = Stack::builder().start().await;
    let client = NativeClient::new(stack.api(0), "shop").await;
    for number in 0..3 {
        publish(&client, "group=big", &format!("big{number}")).await;
    }
    let header = [
        ("Tidegate-Group", "small"),
        ("Content-Type", "application/json"),
    ];
    let published = client
        .send("POST", "/queues/q/jobs", &header, b"\"small\"")
        .await;
    published.expect(201);
    let batch = json!({"jobs": [{"payload": "batch", "group": "größer"}]});
    client
        .call("POST", "/queues/q/jobs/batch", &batch)
        .await
        .expect(200);
    let jobs = client.reserve("q", 3).await;
    assert_eq!(payloads(&jobs), ["big0", "small", "batch"]);
    let groups: Vec<&Value> = jobs.iter().map(|job| &job["group"]).collect();
    assert_eq!(groups, ["big", "small", "größer"]);
    let listed = client
        .get("/queues/q/jobs?group=big&state=ready")
        .await
        .expect(200)
        .json();
    assert_eq!(listed["items"].as_array().unwrap().len(), 2);
    assert_eq!(listed["items"][0]["group"], "big");
    for group in ["", &"x".repeat(129), "a%00"] {
        let refused = client.publish("q", &format!("group={group}"), "x").await;
        assert_eq!(refused.expect(400).json()["field"], "group", "{group}");
    }
    stack.finish().await;
}

#[tokio::test]
async fn a_full_group_waits_for_the_end_of_a_lease_and_explain_says_so() {
    let stack = Stack::builder().apis(2).start().await;
    let client = NativeClient::new(stack.api(0), "shop").await;
    set_limit(&client, json!(1)).await;
    for options in ["group=a", "group=a&key=second", "group=b"] {
        publish(&client, options, options).await;
    }
    let other = NativeClient::with_key(stack.api(1), "shop", client.key());
    let known = async || {
        let explained = other.get("/queues/q/jobs/key:second/explain").await;
        let explained = explained.expect(200).json();
        match explained["facts"].to_string().contains("0 of 1 jobs") {
            true => Ok(()),
            false => Err(explained),
        }
    };
    eventually("the other API knows the limit", SOON, known).await;
    let first = take(&other, "0s").await;
    assert_eq!(payloads(&first), ["group=a", "group=b"]);
    assert_eq!(take(&client, "0s").await, Vec::<Value>::new());
    let explained = client.get("/queues/q/jobs/key:second/explain").await;
    let explained = explained.expect(200).json();
    assert_eq!(explained["cause"], "group_full", "{explained}");
    let summary = "Its group has 1 of 1 jobs running: it is delivered after one of them ends, or when groups.max_running in \
                   the policy of its queue is raised.";
    assert_eq!(explained["summary"], summary);
    // A worker that waits gets the job when the lease ends, without a poll.
    let waiting = take(&client, "20s");
    let acked = async {
        tokio::time::sleep(Duration::from_millis(300)).await;
        let leases = json!({"leases": [first[0]["lease"]]});
        assert_eq!(other.settle("ack", &leases).await.len(), 1);
    };
    let (next, ()) = tokio::join!(waiting, acked);
    assert_eq!(payloads(&next), ["group=a&key=second"]);
    stack.finish().await;
}

#[tokio::test]
async fn a_raised_limit_delivers_the_jobs_that_it_held_back() {
    let stack = Stack::builder().start().await;
    let client = NativeClient::new(stack.api(0), "shop").await;
    set_limit(&client, json!(1)).await;
    for payload in ["1", "2"] {
        publish(&client, "group=a", payload).await;
    }
    assert_eq!(payloads(&take(&client, "0s").await), ["1"]);
    let waiting = take(&client, "20s");
    let raised = async {
        tokio::time::sleep(Duration::from_millis(300)).await;
        set_limit(&client, Value::Null).await;
    };
    let (next, ()) = tokio::join!(waiting, raised);
    assert_eq!(payloads(&next), ["2"]);
    let refused = json!({"groups": {"max_running": 0}});
    let refused = client.call("PATCH", "/queues/q/policy", &refused).await;
    assert_eq!(refused.expect(400).json()["field"], "groups.max_running");
    stack.finish().await;
}

#[tokio::test]
async fn the_jobs_of_a_schedule_have_its_group() {
    let stack = Stack::builder().start().await;
    let client = NativeClient::new(stack.api(0), "shop").await;
    set_limit(&client, json!(1)).await;
    let job = json!({"payload": "x", "group": "nightly"});
    let schedule = json!({"queue": "q", "every": "100ms", "job": job, "overlap": "allow"});
    client
        .call("PUT", "/schedules/often", &schedule)
        .await
        .expect(201);
    let published = async || {
        let listed = client.get("/queues/q/jobs?state=ready&group=nightly").await;
        let listed = listed.expect(200).json();
        match listed["items"].as_array().unwrap().len() {
            0 | 1 => Err(listed),
            _ => Ok(()),
        }
    };
    eventually("the schedule has published twice", SOON, published).await;
    assert_eq!(take(&client, "0s").await.len(), 1);
    stack.finish().await;
}
