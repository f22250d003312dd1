//! Quotas of namespaces under load: several processes at the limit of jobs, and the other namespaces meanwhile.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use futures_util::future::join_all;
use serde_json::json;
use tidegate_testkit::{NativeClient, Stack, print_figure};
use tokio::task::JoinSet;

const JOBS: u64 = 200;

/// Publishes until `stop`, and returns how many jobs were stored.
async fn hammer(client: NativeClient, stop: Arc<AtomicBool>) -> u64 {
    let mut stored = 0;
    while !stop.load(Ordering::Relaxed) {
        let answer = client.publish("q", "", "1").await;
        match answer.status {
            201 => stored += 1,
            409 | 429 => {}
            _ => panic!("{}", answer.text()),
        }
    }
    stored
}

/// Each process stores at most the room that it has found: all of it, if they count at the same moment.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_processes_exceed_the_limit_of_jobs_by_what_each_found_at_most() {
    let stack = Stack::builder().pumps(0).apis(2).start().await;
    stack.api(0).set_quota("shop", &json!({"jobs": JOBS})).await;
    let clients = [0, 1].map(|api| NativeClient::new(stack.api(api), "shop"));
    let clients = join_all(clients).await;
    // Both know the quota.
    tokio::time::sleep(Duration::from_secs(2)).await;
    let stop = Arc::new(AtomicBool::new(false));
    let mut hammering = JoinSet::new();
    for client in clients.iter().flat_map(|client| vec![client.clone(); 8]) {
        hammering.spawn(hammer(client, Arc::clone(&stop)));
    }
    tokio::time::sleep(Duration::from_secs(4)).await;
    stop.store(true, Ordering::Relaxed);
    let stored: u64 = hammering.join_all().await.into_iter().sum();
    print_figure(&format!(
        "jobs stored with a limit of {JOBS} by two processes: {stored}"
    ));
    assert!((JOBS..=2 * JOBS).contains(&stored), "{stored}");
    for client in &clients {
        let answer = client.publish("q", "", "1").await;
        answer.expect(409);
    }
    let jobs = clients[0].get("/queues/q").await.expect(200).json();
    assert_eq!(jobs["jobs"]["ready"], stored);
    stack.finish().await;
}

/// Publishes and reserves one job after the other for `time`, and returns how long each pair took.
async fn pairs(client: &NativeClient, time: Duration) -> Vec<Duration> {
    let began = Instant::now();
    let mut took = Vec::new();
    while began.elapsed() < time {
        let at = Instant::now();
        client.publish("q", "", "1").await.expect(201);
        let reserved = client.reserve("q", 1).await;
        took.push(at.elapsed());
        let leases = json!({"leases": [reserved[0]["lease"]]});
        client.settle("ack", &leases).await;
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
    took
}

/// The 99th percentile, in ms.
fn p99(mut took: Vec<Duration>) -> f64 {
    took.sort();
    took[took.len() * 99 / 100].as_secs_f64() * 1000.0
}

/// The pairs of another namespace while clients publish beyond the limits of theirs, and how many were refused.
async fn pairs_beside(quiet: &NativeClient, loud: &NativeClient) -> (Vec<Duration>, u64) {
    let stop = Arc::new(AtomicBool::new(false));
    let mut hammering = JoinSet::new();
    for _ in 0..4 {
        let (client, stop) = (loud.clone(), Arc::clone(&stop));
        hammering.spawn(async move {
            let mut refused = 0;
            while !stop.load(Ordering::Relaxed) {
                if client.publish("q", "", "1").await.status != 201 {
                    refused += 1;
                    // The test shares its processors with the server.
                    tokio::time::sleep(Duration::from_millis(10)).await;
                }
            }
            refused
        });
    }
    let took = pairs(quiet, Duration::from_secs(2)).await;
    stop.store(true, Ordering::Relaxed);
    (took, hammering.join_all().await.into_iter().sum())
}

/// Times with and without load take turns, since other programs share the machine.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_namespace_at_its_limits_does_not_delay_another() {
    let stack = Stack::builder().pumps(1).start().await;
    let api = stack.api(0);
    let quiet = NativeClient::new(api, "quiet").await;
    pairs(&quiet, Duration::from_secs(1)).await;
    for (name, quota) in [
        ("jobs", json!({"jobs": 20})),
        ("publishes", json!({"publishes_per_second": 10})),
    ] {
        api.set_quota(name, &quota).await;
        let loud = NativeClient::new(api, name).await;
        let (mut alone, mut beside, mut refused) = (Vec::new(), Vec::new(), 0);
        for _ in 0..3 {
            alone.extend(pairs(&quiet, Duration::from_secs(2)).await);
            let (took, refusals) = pairs_beside(&quiet, &loud).await;
            beside.extend(took);
            refused += refusals;
        }
        let (alone, beside) = (p99(alone), p99(beside));
        print_figure(&format!(
            "p99 of publish and reserve: {alone:.1} ms alone, {beside:.1} ms beside a namespace at {quota} ({refused} refused)"
        ));
        assert!(refused > 0);
        assert!(beside < alone + 500.0, "{alone} {beside}");
    }
    stack.finish().await;
}
