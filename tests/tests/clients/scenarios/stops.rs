//! Workers that stop lose nothing, and leave no lease.

use std::time::{Duration, Instant};

use rustix::process::Signal;
use serde_json::json;

use super::scenarios;
use crate::ground::OpenGround;

scenarios![
    a_stop_while_idle_ends_at_once,
    a_stop_lets_handlers_finish,
    a_stop_while_reporting_loses_nothing,
    a_stop_gives_back_what_does_not_finish,
    a_second_signal_ends_at_once,
    a_stop_by_a_call_ends_the_worker,
    a_job_that_arrives_during_a_stop_is_given_back,
];

async fn a_stop_while_idle_ends_at_once(ground: OpenGround) {
    let mut driver = ground.worker(json!({})).await;
    tokio::time::sleep(Duration::from_millis(500)).await;
    let begin = Instant::now();
    driver.signal(Signal::TERM);
    assert_eq!(driver.status().await, Some(0));
    assert!(
        begin.elapsed() < Duration::from_secs(10),
        "the long poll was not cut"
    );
    // The server has noticed that the client has left.
    ground.publish("", &json!({})).await;
    tokio::time::sleep(Duration::from_millis(500)).await;
    assert_eq!(ground.count("q", "leased").await, 0);
}

async fn a_stop_lets_handlers_finish(ground: OpenGround) {
    ground
        .publish("retain=1h", &json!({"sleep_ms": 2_500}))
        .await;
    let mut driver = ground.worker(json!({"lease_ms": 1_000})).await;
    driver.expect_event("started").await;
    driver.signal(Signal::TERM);
    assert_eq!(driver.expect_event("ended").await["attempt"], 1);
    assert_eq!(driver.status().await, Some(0));
    assert_eq!(ground.count("q", "done").await, 1);
}

async fn a_stop_while_reporting_loses_nothing(ground: OpenGround) {
    const JOBS: u64 = 400;
    for _ in 0..4 {
        let jobs = vec![json!({"payload": {"sleep_ms": 1}, "retain": "1h"}); 100];
        let path = "/queues/q/jobs/batch";
        ground
            .client
            .call("POST", path, &json!({ "jobs": jobs }))
            .await
            .expect(200);
    }
    let mut driver = ground.worker(json!({})).await;
    let mut ended = 0;
    while ended < 50 {
        ended += u64::from(driver.event().await["event"] == "ended");
    }
    driver.signal(Signal::TERM);
    assert_eq!(driver.status().await, Some(0));
    while let Some(event) = driver.left().await {
        ended += u64::from(event["event"] == "ended");
    }
    ground.until("q", "leased", 0).await;
    let (done, ready) = (
        ground.count("q", "done").await,
        ground.count("q", "ready").await,
    );
    assert_eq!((done, done + ready), (ended, JOBS));
}

async fn a_stop_gives_back_what_does_not_finish(ground: OpenGround) {
    ground.publish("key=k", &json!({"sleep_ms": 60_000})).await;
    let mut driver = ground.worker(json!({})).await;
    driver.expect_event("started").await;
    let begin = Instant::now();
    let stopping = driver.send("stop", json!({"grace_ms": 300})).await;
    assert_eq!(driver.expect_event("aborted").await["reason"], "stopping");
    stopping.ok().await;
    assert!(begin.elapsed() < Duration::from_secs(15));
    ground.until("q", "ready", 1).await;
    let shown = ground.shown("q", "k").await;
    assert_eq!(
        (&shown["failures"], &shown["losses"]),
        (&json!(0), &json!(0))
    );
}

async fn a_second_signal_ends_at_once(ground: OpenGround) {
    ground.publish("", &json!({"sleep_ms": 60_000})).await;
    let mut driver = ground.worker(json!({"lease_ms": 2_000})).await;
    driver.expect_event("started").await;
    driver.signal(Signal::TERM);
    tokio::time::sleep(Duration::from_millis(500)).await;
    let begin = Instant::now();
    driver.signal(Signal::TERM);
    driver.status().await;
    assert!(begin.elapsed() < Duration::from_secs(10));
    ground.until("q", "ready", 1).await;
}

async fn a_stop_by_a_call_ends_the_worker(ground: OpenGround) {
    ground.publish("retain=1h", &json!({"sleep_ms": 300})).await;
    let mut driver = ground.worker(json!({})).await;
    driver.expect_event("started").await;
    driver.ok("stop", json!({})).await;
    driver.expect_event("ended").await;
    let ended = driver.expect_event("worker_ended").await;
    assert!(ended.get("error").is_none(), "{ended}");
    assert_eq!(ground.count("q", "done").await, 1);
    // The client of the program still works.
    driver.ok("queue", json!({"queue": "q"})).await;
}

async fn a_job_that_arrives_during_a_stop_is_given_back(ground: OpenGround) {
    for _ in 0..10 {
        let mut driver = ground.worker(json!({})).await;
        tokio::time::sleep(Duration::from_millis(200)).await;
        driver.signal(Signal::TERM);
        ground.publish("", &json!({"sleep_ms": 1})).await;
        assert_eq!(driver.status().await, Some(0));
    }
    let begin = Instant::now();
    ground.until("q", "leased", 0).await;
    assert!(
        begin.elapsed() < Duration::from_secs(10),
        "a lease was left"
    );
}
