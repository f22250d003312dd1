//! Queues, schedules and keys.

use serde_json::{Value, json};

use super::scenarios;
use crate::ground::OpenGround;

scenarios![
    a_queue_is_shown_and_deleted,
    queues_are_listed_in_pages,
    a_policy_is_set_and_read,
    ready_jobs_are_purged,
    dead_jobs_are_respawned,
    a_schedule_is_set_and_deleted,
    keys_are_created_and_revoked,
];

async fn a_queue_is_shown_and_deleted(ground: OpenGround) {
    let mut driver = ground.driver().await;
    driver
        .ok("publish", json!({"queue": "q", "payload": 1}))
        .await;
    let queue = driver.ok("queue", json!({"queue": "q"})).await;
    assert_eq!(
        (&queue["queue"], &queue["jobs"]["ready"]),
        (&json!("q"), &json!(1))
    );
    let error = driver.error("delete_queue", json!({"queue": "q"})).await;
    assert_eq!(error["code"], "queue_not_empty", "{error}");
    driver
        .ok("purge", json!({"queue": "q", "state": "ready"}))
        .await;
    driver.ok("delete_queue", json!({"queue": "q"})).await;
}

async fn queues_are_listed_in_pages(ground: OpenGround) {
    let mut driver = ground.driver().await;
    for number in 0..120 {
        ground
            .client
            .publish(&format!("q{number:03}"), "", "x")
            .await
            .expect(201);
    }
    let queues = driver.ok("queues", json!({"page_size": 50})).await;
    let queues = queues.as_array().unwrap().iter();
    let mut names: Vec<&str> = queues.filter_map(|queue| queue["queue"].as_str()).collect();
    names.sort_unstable();
    names.dedup();
    assert_eq!(names.len(), 120);
}

async fn a_policy_is_set_and_read(ground: OpenGround) {
    let mut driver = ground.driver().await;
    let policy = json!({"lease": "90s", "retry": {"delays": ["2m", "10m"], "max_attempts": 3}, "max_running": 5});
    driver
        .ok("set_policy", json!({"queue": "q", "policy": policy}))
        .await;
    let read = driver.ok("policy", json!({"queue": "q"})).await;
    assert_eq!(
        (
            &read["lease_ms"],
            &read["retry"]["delays_ms"],
            &read["max_running"]
        ),
        (&json!(90_000), &json!([120_000, 600_000]), &json!(5))
    );
}

async fn ready_jobs_are_purged(ground: OpenGround) {
    let mut driver = ground.driver().await;
    let jobs = vec![json!({"payload": 1}); 7];
    driver
        .ok("publish_batch", json!({"queue": "q", "jobs": jobs}))
        .await;
    let purged = driver
        .ok("purge", json!({"queue": "q", "state": "ready"}))
        .await;
    assert_eq!(purged["deleted"], 7, "{purged}");
}

async fn dead_jobs_are_respawned(ground: OpenGround) {
    let mut driver = ground.driver().await;
    let jobs = vec![json!({"payload": 1}); 3];
    driver
        .ok("publish_batch", json!({"queue": "q", "jobs": jobs}))
        .await;
    let reserved = driver
        .ok("reserve", json!({"queues": ["q"], "max_jobs": 3}))
        .await;
    let leases: Vec<&Value> = reserved
        .as_array()
        .unwrap()
        .iter()
        .map(|job| &job["lease"])
        .collect();
    let failed = driver
        .ok(
            "fail",
            json!({"leases": leases, "error": "never", "dead": true}),
        )
        .await;
    assert_eq!(failed, json!(vec![json!({"outcome": "dead"}); 3]));
    let respawned = driver
        .ok("respawn", json!({"queue": "q", "limit": 2}))
        .await;
    assert_eq!(respawned["respawned"], 2, "{respawned}");
}

async fn a_schedule_is_set_and_deleted(ground: OpenGround) {
    let mut driver = ground.driver().await;
    let schedule = json!({"queue": "q", "cron": "0 9 * * MON-FRI", "time_zone": "Europe/Berlin", "job": {"payload": {"a": 1}}});
    let set = driver
        .ok(
            "set_schedule",
            json!({"name": "digest", "schedule": schedule}),
        )
        .await;
    assert_eq!(set["name"], "digest", "{set}");
    let shown = driver.ok("schedule", json!({"name": "digest"})).await;
    assert_eq!(shown["config"]["cron"], "0 9 * * MON-FRI", "{shown}");
    let runs = driver
        .ok("next_runs", json!({"name": "digest", "count": 3}))
        .await;
    assert!(runs.to_string().matches(".000Z").count() >= 3, "{runs}");
    let all = driver.ok("schedules", json!({})).await;
    assert_eq!(all.as_array().map(Vec::len), Some(1), "{all}");
    driver
        .ok("delete_schedule", json!({"name": "digest"}))
        .await;
    let error = driver.error("schedule", json!({"name": "digest"})).await;
    assert_eq!(
        (&error["class"], &error["code"]),
        (&json!("NotFoundError"), &json!("schedule_not_found"))
    );
}

async fn keys_are_created_and_revoked(ground: OpenGround) {
    let mut driver = ground.driver().await;
    let key = json!({"scopes": ["publish"], "description": "a scenario"});
    let created = driver.ok("create_key", json!({ "key": key })).await;
    let id = created["key"]["id"].clone();
    assert!(
        created["secret"]
            .as_str()
            .is_some_and(|secret| secret.starts_with("tg_")),
        "{created}"
    );
    let keys = driver.ok("keys", json!({})).await;
    assert!(
        keys.as_array().unwrap().iter().any(|key| key["id"] == id),
        "{keys}"
    );
    driver.ok("revoke_key", json!({ "key_id": id })).await;
}
