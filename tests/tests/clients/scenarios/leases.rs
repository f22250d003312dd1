//! Reserving jobs, and ending their leases, without a worker.

use std::time::Duration;

use serde_json::{Value, json};

use super::scenarios;
use crate::ground::OpenGround;

scenarios![
    jobs_are_reserved_and_acknowledged,
    each_lease_has_its_outcome,
    a_failure_has_its_own_delay,
    a_lease_is_extended,
    a_reserve_waits_for_a_job,
    a_reserve_looks_into_several_queues,
];

fn leases(jobs: &Value) -> Vec<Value> {
    let jobs = jobs.as_array().unwrap().iter();
    jobs.map(|job| job["lease"].clone()).collect()
}

async fn jobs_are_reserved_and_acknowledged(ground: OpenGround) {
    let mut driver = ground.driver().await;
    for number in 0..5 {
        driver
            .ok("publish", json!({"queue": "q", "payload": number}))
            .await;
    }
    let jobs = driver
        .ok("reserve", json!({"queues": ["q"], "max_jobs": 3}))
        .await;
    let payloads: Vec<&Value> = jobs
        .as_array()
        .unwrap()
        .iter()
        .map(|job| &job["payload"])
        .collect();
    assert_eq!(payloads, [0, 1, 2]);
    assert_eq!(
        (&jobs[0]["queue"], &jobs[0]["attempt"]),
        (&json!("q"), &json!(1))
    );
    let acked = driver.ok("ack", json!({"leases": leases(&jobs)})).await;
    assert_eq!(acked, json!(vec![json!({"outcome": "done"}); 3]));
}

async fn each_lease_has_its_outcome(ground: OpenGround) {
    let mut driver = ground.driver().await;
    for number in 0..3 {
        driver
            .ok("publish", json!({"queue": "q", "payload": number}))
            .await;
    }
    let jobs = driver
        .ok("reserve", json!({"queues": ["q"], "max_jobs": 3}))
        .await;
    let leases = leases(&jobs);
    driver.ok("ack", json!({"leases": [leases[0]]})).await;
    let acked = driver
        .ok("ack", json!({"leases": [leases[0], leases[1]]}))
        .await;
    assert_eq!(acked, json!([{"outcome": "gone"}, {"outcome": "done"}]));
    let released = driver.ok("release", json!({"leases": [leases[2]]})).await;
    assert_eq!(released, json!([{"outcome": "released"}]));
    let lost = driver.ok("ack", json!({"leases": [leases[2]]})).await;
    assert_eq!(lost, json!([{"outcome": "lost"}]));
}

async fn a_failure_has_its_own_delay(ground: OpenGround) {
    let mut driver = ground.driver().await;
    driver
        .ok(
            "publish",
            json!({"queue": "q", "payload": 1, "options": {"key": "k"}}),
        )
        .await;
    let jobs = driver.ok("reserve", json!({"queues": ["q"]})).await;
    let fields = json!({"leases": leases(&jobs), "error": "HTTP 503 → später", "retry_in_ms": 0});
    let failed = driver.ok("fail", fields).await;
    assert_eq!(failed[0]["outcome"], "retry", "{failed}");
    let again = driver
        .ok("reserve", json!({"queues": ["q"], "wait_ms": 10_000}))
        .await;
    assert_eq!(
        (&again[0]["attempt"], &again[0]["failures"]),
        (&json!(2), &json!(1))
    );
    assert_eq!(
        ground.shown("q", "k").await["history"][0]["error"],
        "HTTP 503 → später"
    );
}

async fn a_lease_is_extended(ground: OpenGround) {
    let mut driver = ground.driver().await;
    driver
        .ok("publish", json!({"queue": "q", "payload": 1}))
        .await;
    let jobs = driver
        .ok("reserve", json!({"queues": ["q"], "lease_ms": 1_000}))
        .await;
    let touched = driver
        .ok(
            "touch",
            json!({"leases": leases(&jobs), "lease_ms": 60_000}),
        )
        .await;
    assert_eq!(touched[0]["outcome"], "extended");
    tokio::time::sleep(Duration::from_millis(1_500)).await;
    let acked = driver.ok("ack", json!({"leases": leases(&jobs)})).await;
    assert_eq!(acked, json!([{"outcome": "done"}]));
}

async fn a_reserve_waits_for_a_job(ground: OpenGround) {
    let mut driver = ground.driver().await;
    let pending = driver
        .send("reserve", json!({"queues": ["q"], "wait_ms": 20_000}))
        .await;
    tokio::time::sleep(Duration::from_millis(500)).await;
    driver
        .ok("publish", json!({"queue": "q", "payload": "late"}))
        .await;
    assert_eq!(pending.ok().await[0]["payload"], "late");
}

async fn a_reserve_looks_into_several_queues(ground: OpenGround) {
    let mut driver = ground.driver().await;
    driver
        .ok("publish", json!({"queue": "second", "payload": 2}))
        .await;
    let jobs = driver
        .ok(
            "reserve",
            json!({"queues": ["first", "second"], "max_jobs": 5}),
        )
        .await;
    assert_eq!(jobs[0]["queue"], "second");
}
