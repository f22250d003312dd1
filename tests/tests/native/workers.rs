//! Which workers there are, and which jobs they hold.

use std::time::Duration;

use serde_json::{Value, json};
use tidegate_testkit::{NativeClient, Stack, eventually};

const ENOUGH: Duration = Duration::from_secs(20);

async fn reserve(client: &NativeClient, worker: &str, wait: &str) -> Vec<Value> {
    let body = json!({"queues": ["q"], "worker": worker, "wait": wait, "max_jobs": 10});
    let answer = client.call("POST", "/reserve", &body).await.expect(200);
    answer.json()["jobs"].as_array().unwrap().clone()
}

/// The names of the workers, and how many jobs each holds.
async fn workers(client: &NativeClient) -> Vec<(String, usize)> {
    let page = client.get("/workers").await.expect(200).json();
    let items = page["items"].as_array().unwrap().iter();
    let held = |worker: &Value| worker["jobs"].as_array().unwrap().len();
    let items = items.map(|it| (it["worker"].as_str().unwrap().to_owned(), held(it)));
    items.collect()
}

async fn expect(client: &NativeClient, expected: &[(&str, usize)]) {
    eventually("the workers are known", ENOUGH, async || {
        let found = workers(client).await;
        let is_same = found.len() == expected.len()
            && found
                .iter()
                .zip(expected)
                .all(|(one, other)| (&*one.0, one.1) == *other);
        if is_same {
            Ok(())
        } else {
            Err(format!("{found:?}"))
        }
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn workers_are_listed_with_the_jobs_that_they_hold() {
    let stack = Stack::builder().apis(2).start().await;
    let client = NativeClient::new(stack.api(0), "shop").await;
    let there = NativeClient::with_key(stack.api(1), "shop", client.key());
    assert!(workers(&client).await.is_empty());
    for _ in 0..3 {
        client.publish("q", "", "x").await.expect(201);
    }
    let held = reserve(&client, "mailer-1", "0s").await;
    assert_eq!(held.len(), 3);
    assert!(reserve(&there, "mailer-2", "0s").await.is_empty());
    // Both servers know both.
    for client in [&client, &there] {
        expect(client, &[("mailer-1", 3), ("mailer-2", 0)]).await;
    }
    let page = client.get("/workers").await.expect(200).json();
    let (first, job) = (&page["items"][0], &page["items"][0]["jobs"][0]);
    assert_eq!(
        (&first["queues"], &first["waits"]),
        (&json!(["q"]), &json!(false))
    );
    let of_job = held.iter().find(|held| held["id"] == job["id"]).unwrap();
    assert_eq!((&job["queue"], &job["attempt"]), (&json!("q"), &json!(1)));
    assert_eq!(job["lease_until"], of_job["lease_until"]);

    // Leases end at the server that knows them, and at another one.
    let later = |index: usize| json!({"leases": [held[index]["lease"]], "delay": "1h"});
    client
        .settle("ack", &json!({"leases": [held[0]["lease"]]}))
        .await;
    there.settle("release", &later(1)).await;
    expect(&client, &[("mailer-1", 1), ("mailer-2", 0)]).await;
    client.settle("release", &later(2)).await;
    expect(&there, &[("mailer-1", 0), ("mailer-2", 0)]).await;

    let waiting = tokio::spawn({
        let client = client.clone();
        async move { reserve(&client, "mailer-3", "20s").await }
    });
    eventually("a worker waits", ENOUGH, async || {
        let page = client.get("/workers").await.expect(200).json();
        let waits = page["items"]
            .as_array()
            .unwrap()
            .iter()
            .any(|it| it["waits"] == true);
        if waits { Ok(()) } else { Err(page) }
    })
    .await;
    waiting.abort();

    let other = NativeClient::new(stack.api(0), "other").await;
    assert!(workers(&other).await.is_empty(), "of another namespace");
    let without = NativeClient::with_scopes(stack.api(0), "shop", &["consume"]).await;
    without.get("/workers").await.expect(403);
    for worker in ["", "a\nb", &"x".repeat(129)] {
        let body = json!({"queues": ["q"], "worker": worker});
        let refused = client
            .call("POST", "/reserve", &body)
            .await
            .expect(400)
            .json();
        assert_eq!(refused["field"], "worker");
    }
    stack.finish().await;
}
