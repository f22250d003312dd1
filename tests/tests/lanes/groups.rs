//! Groups in queues with lanes.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Value, json};
use tidegate_testkit::{NativeClient, Stack, eventually};

use crate::fixture::{PATIENCE, bucket};

const GROUPS: usize = 24;
const JOBS_OF_EACH: usize = 4;

/// Eight lanes, and one running job of each group.
async fn set_lanes_and_limit(client: &NativeClient) {
    for (method, path, body) in [
        ("PUT", "/queues/orders/lanes", json!({"open": 8})),
        (
            "PATCH",
            "/queues/orders/policy",
            json!({"groups": {"max_running": 1}}),
        ),
    ] {
        client.call(method, path, &body).await.expect(200);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_jobs_of_a_group_are_in_one_lane_and_never_two_of_them_run() {
    let stack = Stack::builder().start().await;
    stack.pump(0).wait_for_buckets(256).await;
    let client = NativeClient::new(stack.api(0), "shop").await;
    set_lanes_and_limit(&client).await;
    // Some alone, most in batches, which are split.
    let group_of = |job: usize| format!("customer-{}", job % GROUPS);
    for job in 0..GROUPS {
        let path = format!("/queues/orders/jobs?group={}", group_of(job));
        // A request that may be repeated is in the lane of its group too.
        let request = format!("request-{job}");
        let headers = [("Idempotency-Key", request.as_str())];
        let headers = if job % 2 == 0 { &headers[..] } else { &[] };
        client.send("POST", &path, headers, b"1").await.expect(201);
    }
    let jobs =
        (GROUPS..GROUPS * JOBS_OF_EACH).map(|job| match job % 3 {
            0 => json!({"payload": job, "group": group_of(job), "idempotency_key": format!("request-{job}")}),
            _ => json!({"payload": job, "group": group_of(job)}),
        });
    let batch = json!({"jobs": jobs.collect::<Vec<Value>>()});
    let answer = client
        .call("POST", "/queues/orders/jobs/batch", &batch)
        .await;
    let results = answer.expect(200).json()["results"].clone();
    let results = results.as_array().unwrap();
    assert_eq!(results.len(), GROUPS * (JOBS_OF_EACH - 1));
    let (mut lanes_of, mut done) = (BTreeMap::<String, BTreeSet<u16>>::new(), 0);
    while done < GROUPS * JOBS_OF_EACH {
        let leased = client.reserve("orders", 100).await;
        let groups: Vec<&str> = leased
            .iter()
            .map(|job| job["group"].as_str().unwrap())
            .collect();
        let distinct: BTreeSet<&str> = groups.iter().copied().collect();
        assert_eq!(
            distinct.len(),
            groups.len(),
            "two of a group run: {groups:?}"
        );
        for job in &leased {
            let group = job["group"].as_str().unwrap().to_owned();
            lanes_of
                .entry(group)
                .or_default()
                .insert(bucket(job["id"].as_str().unwrap()));
        }
        let leases: Vec<&Value> = leased.iter().map(|job| &job["lease"]).collect();
        client.settle("ack", &json!({"leases": leases})).await;
        done += leased.len();
    }
    assert!(
        lanes_of.values().all(|lanes| lanes.len() == 1),
        "{lanes_of:?}"
    );
    let used: BTreeSet<u16> = lanes_of.values().flatten().copied().collect();
    assert!(used.len() > 4, "groups are spread: {used:?}");
    let is_empty = async || {
        let listed = client.get("/queues/orders/jobs").await.expect(200).json();
        match listed["items"].as_array().unwrap().is_empty() {
            true => Ok(()),
            false => Err(listed),
        }
    };
    eventually("all jobs are done", PATIENCE, is_empty).await;
    stack.finish().await;
}
