//! S3 as the object store.

use tidegate_testkit::{RedisOptions, eventually};
use tokio::time::{Duration, sleep};

use crate::cold_stack::{ColdStack, HOUR_S, LIMIT, Published, files};
use crate::s3_server::{S3Behaviour, S3Server};

const JOBS: usize = 300;

/// A deployment with S3, whose secret key is this one.
async fn start(pump_config: &str, secret_key: &str) -> (S3Server, ColdStack) {
    let folder = tempfile::tempdir().expect("a folder");
    let server = S3Server::start(&folder.path().join("cold")).await;
    let environment = server.environment(secret_key);
    let url = S3Server::url();
    let cold = ColdStack::start_with(
        RedisOptions::new(),
        folder,
        &url,
        1,
        pump_config,
        &environment,
    );
    let cold = cold.await;
    (server, cold)
}

/// Jobs whose payloads are there.
async fn frozen(pump_config: &str) -> (S3Server, ColdStack, Vec<Published>) {
    let (server, cold) = start(pump_config, S3Server::secret_key()).await;
    let jobs = cold.publish(JOBS, 3 * HOUR_S, 300).await;
    cold.until_frozen(JOBS).await;
    (server, cold, jobs)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn payloads_go_come_back_and_are_deleted() {
    let (_server, cold, jobs) = frozen("").await;
    // One payload is read for its own call.
    let peeked = cold.queue.peek_job(&jobs[0].0).await;
    assert!(peeked.text().contains(&jobs[0].0), "{peeked:?}");
    cold.change_pump_config("cold_freeze = false\ncold_keep = \"1m\"");
    cold.stack.pump(0).restart().await;
    cold.until_thawed(JOBS).await;
    eventually(
        "segments are deleted",
        Duration::from_secs(240),
        async || match files(&cold.objects().join("jobs")).len() {
            // The marker stays.
            1 => Ok(()),
            left => Err(left),
        },
    )
    .await;
    cold.forward(3 * HOUR_S + 1);
    cold.expect(&jobs).await;
    cold.stack.finish().await;
}

/// Each request takes two seconds, which is the time limit of a call that needs a payload.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn payloads_of_a_slow_store_are_back_in_time() {
    let (server, cold, jobs) = frozen("").await;
    server.behave(S3Behaviour::Slow);
    let more = cold.publish(JOBS, 3 * HOUR_S, 300).await;
    cold.until_frozen(2 * JOBS).await;
    cold.forward(3 * HOUR_S - 240);
    cold.until_thawed(2 * JOBS).await;
    cold.forward(3 * HOUR_S + 5);
    cold.expect(&[jobs, more].concat()).await;
    cold.stack.finish().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_payload_is_lost_while_half_of_the_requests_fail() {
    let (server, cold, jobs) = frozen("").await;
    server.behave(S3Behaviour::FailsHalf);
    let more = cold.publish(JOBS, 3 * HOUR_S, 300).await;
    cold.until_frozen(2 * JOBS).await;
    // Without time for the pump, so that calls read some of them.
    cold.forward(3 * HOUR_S + 5);
    cold.expect(&[jobs, more].concat()).await;
    cold.stack.finish().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_payload_that_the_store_alters_is_not_delivered() {
    let (server, cold, jobs) = frozen("").await;
    server.behave(S3Behaviour::Alters);
    cold.forward(3 * HOUR_S + 5);
    let damaged = "tidegate_cold_damaged_segments_total{pool=\"default\"}";
    eventually("the damage is noticed", LIMIT, async || {
        match cold.pump_metric(damaged).await {
            0.0 => Err("it is not"),
            _ => Ok(()),
        }
    })
    .await;
    let consume = cold.queue.consume().timeout_s(1);
    consume.send().await.expect("an answer").expect(404);
    server.behave(S3Behaviour::Correct);
    cold.expect(&jobs).await;
    cold.stack.finish().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn payloads_stay_in_redis_if_the_credentials_are_refused() {
    let (server, cold) = start("", "another-secret").await;
    let jobs = cold.publish(JOBS, 3 * HOUR_S, 300).await;
    eventually("the store is asked", LIMIT, async || {
        match server.requests() {
            0 => Err("it is not"),
            _ => Ok(()),
        }
    })
    .await;
    sleep(Duration::from_secs(2)).await;
    cold.until_frozen(0).await;
    let log = cold.stack.pump(0).log();
    assert!(!log.contains("another-secret"), "{log}");
    cold.forward(3 * HOUR_S + 5);
    cold.expect(&jobs).await;
    cold.stack.finish().await;
}
