//! A folder as the object store.

use std::path::Path;
use std::time::Duration;

use serde_json::json;
use tidegate_testkit::{NativeClient, ReceivedJob, eventually};
use tokio::time::sleep;

use crate::cold_stack::{ColdStack, HOUR_S, LIMIT, files};

const JOBS: usize = 500;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn payloads_go_and_are_back_before_their_jobs_are_due() {
    let cold = ColdStack::start(2, "").await;
    let small = cold.publish(JOBS, 3 * HOUR_S, 300).await;
    let large = cold.publish(20, 5 * HOUR_S, 5000).await;
    cold.until_frozen(JOBS + 20).await;
    assert!(!files(&cold.objects()).is_empty());
    // The partition that begins within five minutes is back.
    cold.forward(3 * HOUR_S - 240);
    cold.until_thawed(JOBS).await;
    cold.forward(3 * HOUR_S + 5);
    cold.expect(&small).await;
    assert_eq!(
        cold.stack.api(0).metric("tidegate_cold_reads_total").await,
        0.0
    );
    cold.forward(5 * HOUR_S + 10);
    cold.expect(&large).await;
    cold.stack.finish().await;
}

/// No pump thaws, so the API reads each payload.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn jobs_whose_payloads_are_not_back_are_read_through() {
    let cold = ColdStack::start(1, "").await;
    let jobs = cold.publish(JOBS, 3 * HOUR_S, 300).await;
    cold.until_frozen(JOBS).await;
    let peeked = cold.queue.peek_job(&jobs[0].0).await;
    assert_eq!(ReceivedJob::parse_all(&peeked)[0].text(), jobs[0].1);
    // Moved to now by their producers, which no pump expects.
    let client = NativeClient::new(cold.stack.api(0), cold.queue.namespace()).await;
    for (id, _) in &jobs {
        let promote = format!("/queues/{}/jobs/{id}/promote", cold.queue.name());
        client.call("POST", &promote, &json!({})).await.expect(200);
    }
    cold.expect(&jobs).await;
    cold.stack.finish().await;
}

/// The folder cannot be read when the jobs become due.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn jobs_wait_while_the_object_store_fails() {
    jobs_wait(|folder| std::fs::write(folder, "not a folder").unwrap()).await;
}

/// There is none, as if it were not mounted.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn jobs_wait_while_the_object_store_is_away() {
    jobs_wait(|_| ()).await;
}

async fn jobs_wait(replace: impl Fn(&Path)) {
    let cold = ColdStack::start(1, "").await;
    let jobs = cold.publish(JOBS, 3 * HOUR_S, 300).await;
    let warm = cold.publish(10, 1200, 300).await;
    cold.until_frozen(JOBS).await;
    let away = cold.objects().with_extension("away");
    std::fs::rename(cold.objects(), &away).expect("a folder");
    replace(&cold.objects());
    cold.forward(3 * HOUR_S + 1);
    cold.expect(&warm).await;
    let failed = "tidegate_cold_failed_passes_total{pool=\"default\",task=\"thaw\"}";
    eventually("a pass fails", LIMIT, async || {
        match cold.pump_metric(failed).await {
            0.0 => Err("none"),
            _ => Ok(()),
        }
    })
    .await;
    let answer = cold
        .queue
        .consume()
        .timeout_s(1)
        .send()
        .await
        .expect("an answer");
    answer.expect(404);
    let _ = std::fs::remove_file(cold.objects());
    std::fs::rename(&away, cold.objects()).expect("a folder");
    cold.expect(&jobs).await;
    cold.stack.finish().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn everything_comes_back_when_the_tier_is_switched_off() {
    let cold = ColdStack::start(1, "").await;
    let jobs = cold.publish(JOBS, 30 * HOUR_S, 300).await;
    cold.until_frozen(JOBS).await;
    cold.change_pump_config("cold_freeze = false\ncold_keep = \"1m\"");
    cold.stack.pump(0).restart().await;
    cold.until_thawed(JOBS).await;
    eventually(
        "segments are deleted",
        Duration::from_secs(240),
        async || match files(&cold.objects()).len() {
            // The marker stays.
            1 => Ok(()),
            left => Err(left),
        },
    )
    .await;
    cold.forward(30 * HOUR_S + 1);
    cold.expect(&jobs).await;
    cold.stack.finish().await;
}

/// Pumps die at any moment, also between writing a segment and putting its references into records.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_payload_is_lost_when_pumps_die() {
    let cold = ColdStack::start(2, "").await;
    let mut jobs = Vec::new();
    for round in 0..6 {
        jobs.extend(cold.publish(JOBS, 3 * HOUR_S + round, 300).await);
        sleep(Duration::from_millis(200 * round)).await;
        let pump = cold.stack.pump(usize::try_from(round % 2).unwrap());
        pump.kill();
        pump.restart().await;
    }
    cold.forward(3 * HOUR_S - 60);
    for round in 0..4 {
        sleep(Duration::from_secs(2)).await;
        let pump = cold.stack.pump(round % 2);
        pump.kill();
        pump.restart().await;
    }
    cold.forward(3 * HOUR_S + 10);
    cold.expect(&jobs).await;
    cold.stack.finish().await;
}
