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
pub(crate) async fn workers(client: &NativeClient) -> Vec<(String, usize)> {
    let page = client.get("/workers").await.expect(200).json();
    let items = page["items"].as_array().unwrap().iter();
    let held = |worker: &Value| worker["jobs"].as_array().unwrap().len();
    let items = items.map(|it| (it["worker"].as_str().unwrap().to_owned(), held(it)));
    items.collect()
}

pub(crate) async fn expect(client: &NativeClient, expected: &[(&str, usize)]) {
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

/// Reserves one job of `q` for a worker.
pub(crate) async fn lease(client: &NativeClient, worker: &str, lease: &str) -> Value {
    let body = json!({"queues": ["q"], "worker": worker, "wait": "10s", "lease": lease});
    let answer = client.call("POST", "/reserve", &body).await.expect(200);
    answer.json()["jobs"][0].clone()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn leases_that_end_at_another_server_make_room() {
    let stack = Stack::builder().apis(2).start().await;
    let client = NativeClient::new(stack.api(0), "shop").await;
    let there = NativeClient::with_key(stack.api(1), "shop", client.key());
    let jobs: Vec<Value> = (0..231).map(|number| json!({"payload": number})).collect();
    let batch = json!({"jobs": jobs});
    client
        .call("POST", "/queues/q/jobs/batch", &batch)
        .await
        .expect(200);
    for _ in 0..23 {
        let held = reserve(&client, "mailer", "0s").await;
        let leases: Vec<&Value> = held.iter().map(|it| &it["lease"]).collect();
        there.settle("ack", &json!({"leases": leases})).await;
    }
    let last = lease(&client, "mailer", "1m").await;
    eventually("the lease is listed", ENOUGH, async || {
        let page = client.get("/workers").await.expect(200).json();
        let jobs = page["items"][0]["jobs"].as_array();
        match jobs.is_some_and(|jobs| jobs.len() == 1 && jobs[0]["id"] == last["id"]) {
            true => Ok(()),
            false => Err(page),
        }
    })
    .await;
    stack.finish().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_lease_that_is_touched_stays_listed() {
    let stack = Stack::builder().apis(2).start().await;
    let client = NativeClient::new(stack.api(0), "shop").await;
    let there = NativeClient::with_key(stack.api(1), "shop", client.key());
    for (payload, touching) in [("here", &client), ("there", &there)] {
        client.publish("q", "", payload).await.expect(201);
        let held = lease(&client, payload, "2s").await;
        let touch = json!({"leases": [held["lease"]], "lease": "10m"});
        let touched = touching.settle("touch", &touch).await;
        assert_eq!(touched[0]["outcome"], "extended");
    }
    // The leases would have ended, and this server has compared them with their records.
    tokio::time::sleep(Duration::from_secs(7)).await;
    assert_eq!(
        workers(&client).await,
        [("here".to_owned(), 1), ("there".to_owned(), 1)]
    );
    stack.finish().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn many_workers_are_listed_in_pages() {
    const WORKERS: usize = 30;
    let stack = Stack::builder().start().await;
    let client = NativeClient::new(stack.api(0), "shop").await;
    let name = |number: usize| format!("worker é {number:02}");
    let jobs: Vec<Value> = (0..100).map(|number| json!({"payload": number})).collect();
    let batch = json!({"jobs": jobs});
    for number in 0..WORKERS {
        client
            .call("POST", "/queues/q/jobs/batch", &batch)
            .await
            .expect(200);
        let body =
            json!({"queues": ["q"], "worker": name(number), "lease": "10m", "max_jobs": 100});
        let held = client
            .call("POST", "/reserve", &body)
            .await
            .expect(200)
            .json();
        assert_eq!(held["jobs"].as_array().unwrap().len(), 100);
    }
    let all = async |limit: &str| {
        let (mut items, mut pages, mut query) = (Vec::new(), 0, limit.to_owned());
        loop {
            let page = client
                .get(&format!("/workers?{query}"))
                .await
                .expect(200)
                .json();
            items.extend(page["items"].as_array().unwrap().clone());
            pages += 1;
            match page["next"].as_str() {
                Some(next) => query = format!("{limit}&cursor={next}"),
                None => return (items, pages),
            }
        }
    };
    for (limit, pages_expected) in [("limit=1000", 3), ("limit=7", 5)] {
        eventually("all are listed", ENOUGH, async || {
            let (items, pages) = all(limit).await;
            let held = |it: &Value| it["jobs"].as_array().unwrap().len();
            let found = items
                .iter()
                .map(|it| (it["worker"].as_str().unwrap().to_owned(), held(it)));
            let found: Vec<(String, usize)> = found.collect();
            let expected = (0..WORKERS).map(|number| (name(number), 100));
            match found == expected.collect::<Vec<_>>() && pages == pages_expected {
                true => Ok(()),
                false => Err(format!("{pages} pages: {found:?}")),
            }
        })
        .await;
    }
    for cursor in ["a!", "AAAA", "_w"] {
        let refused = client.get(&format!("/workers?cursor={cursor}")).await;
        assert_eq!(refused.expect(400).json()["field"], "cursor");
    }
    stack.finish().await;
}
