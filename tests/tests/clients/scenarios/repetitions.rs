//! Requests that are safe to repeat are repeated, others are not.

use std::time::Duration;

use serde_json::{Value, json};
use tidegate_testkit::eventually;
use tidegate_testkit::fault_proxy::{
    DirectionConditions, FaultProxy, ForwardMode, NetworkConditions,
};

use super::scenarios;
use crate::answering::{AnsweringServer, ScriptedAnswer};
use crate::ground::OpenGround;

scenarios![
    a_503_that_was_not_applied_is_repeated,
    a_503_of_unknown_effect_is_not_repeated,
    a_503_of_unknown_effect_is_repeated_if_that_is_safe,
    a_publish_without_a_key_is_made_safe_to_repeat,
    a_retry_after_is_waited_for,
    a_long_retry_after_is_returned,
    a_429_is_returned,
    a_500_is_returned,
    the_delays_grow,
    repetitions_end,
    a_read_is_repeated_after_a_broken_connection,
    a_publish_whose_answer_was_lost_is_stored_once,
    an_ack_whose_answer_was_lost_is_repeated,
];

const ENOUGH: Duration = Duration::from_secs(20);

fn unavailable(applied: &str) -> ScriptedAnswer {
    ScriptedAnswer::problem(503, "storage_unavailable", applied)
}

fn not_repeatable() -> Value {
    json!({"queue": "q", "payload": 1, "options": {"idempotent": false}})
}

/// Bytes of this direction are held.
fn stalls() -> DirectionConditions {
    DirectionConditions {
        mode: ForwardMode::Stalls,
        ..DirectionConditions::default()
    }
}

/// Lets no answer pass.
fn hold_answers(proxy: &FaultProxy) {
    proxy.set(NetworkConditions {
        to_client: stalls(),
        ..NetworkConditions::default()
    });
}

/// Resets all connections; new ones work.
fn break_connections(proxy: &FaultProxy) {
    proxy.cut();
    proxy.set(NetworkConditions::default());
}

async fn a_503_that_was_not_applied_is_repeated(ground: OpenGround) {
    let server = AnsweringServer::start([unavailable("no"), ScriptedAnswer::published()]).await;
    let mut driver = ground.driver_at(server.address()).await;
    driver.ok("publish", not_repeatable()).await;
    assert_eq!(server.requests().len(), 2);
}

async fn a_503_of_unknown_effect_is_not_repeated(ground: OpenGround) {
    let server =
        AnsweringServer::start([unavailable("unknown"), ScriptedAnswer::published()]).await;
    let mut driver = ground.driver_at(server.address()).await;
    let error = driver.error("publish", not_repeatable()).await;
    assert_eq!(
        (&error["class"], &error["applied"]),
        (&json!("ServerError"), &json!("unknown"))
    );
    assert_eq!(server.requests().len(), 1);
}

async fn a_503_of_unknown_effect_is_repeated_if_that_is_safe(ground: OpenGround) {
    let server =
        AnsweringServer::start([unavailable("unknown"), ScriptedAnswer::published()]).await;
    let mut driver = ground.driver_at(server.address()).await;
    let keyed = json!({"queue": "q", "payload": 1, "options": {"key": "k"}});
    driver.ok("publish", keyed).await;
    assert_eq!(server.requests().len(), 2);
}

async fn a_publish_without_a_key_is_made_safe_to_repeat(ground: OpenGround) {
    let server =
        AnsweringServer::start([unavailable("unknown"), ScriptedAnswer::published()]).await;
    let mut driver = ground.driver_at(server.address()).await;
    driver
        .ok("publish", json!({"queue": "q", "payload": 1}))
        .await;
    driver
        .ok("publish", json!({"queue": "q", "payload": 1}))
        .await;
    let requests = server.requests();
    let keys: Vec<&str> = requests
        .iter()
        .map(|it| it.header("idempotency-key"))
        .collect();
    assert!(
        keys[0].len() >= 16 && keys[0] == keys[1] && keys[1] != keys[2],
        "{keys:?}"
    );
}

async fn a_retry_after_is_waited_for(ground: OpenGround) {
    let first = unavailable("no").header("retry-after", "2");
    let server = AnsweringServer::start([first, ScriptedAnswer::published()]).await;
    let mut driver = ground.driver_at(server.address()).await;
    driver.ok("publish", not_repeatable()).await;
    let pauses = server.pauses();
    assert!(pauses[0] >= Duration::from_millis(1_990), "{pauses:?}");
}

async fn a_long_retry_after_is_returned(ground: OpenGround) {
    let server = AnsweringServer::start([unavailable("no").header("retry-after", "60")]).await;
    let mut driver = ground.driver_at(server.address()).await;
    let error = driver.error("publish", not_repeatable()).await;
    assert_eq!(error["retry_after_ms"], 60_000, "{error}");
    assert_eq!(server.requests().len(), 1);
}

async fn a_429_is_returned(ground: OpenGround) {
    let full = ScriptedAnswer::problem(429, "queue_full", "no").header("retry-after", "1");
    let server = AnsweringServer::start([full]).await;
    let mut driver = ground.driver_at(server.address()).await;
    let error = driver
        .error("publish", json!({"queue": "q", "payload": 1}))
        .await;
    assert_eq!(
        (&error["class"], &error["retry_after_ms"]),
        (&json!("RateLimitedError"), &json!(1_000))
    );
    assert_eq!(server.requests().len(), 1);
}

async fn a_500_is_returned(ground: OpenGround) {
    let server =
        AnsweringServer::start([ScriptedAnswer::problem(500, "internal_error", "unknown")]).await;
    let mut driver = ground.driver_at(server.address()).await;
    let error = driver
        .error("publish", json!({"queue": "q", "payload": 1}))
        .await;
    assert_eq!(error["class"], "ServerError", "{error}");
    assert_eq!(server.requests().len(), 1);
}

async fn the_delays_grow(ground: OpenGround) {
    let refusals = vec![unavailable("no"); 4].into_iter();
    let server = AnsweringServer::start(refusals.chain([ScriptedAnswer::published()])).await;
    let mut driver = ground.driver_at(server.address()).await;
    driver
        .ok("publish", json!({"queue": "q", "payload": 1}))
        .await;
    let pauses = server.pauses();
    let least = [99, 199, 399, 799].map(Duration::from_millis);
    assert!(
        pauses
            .iter()
            .zip(least)
            .all(|(pause, least)| *pause >= least),
        "{pauses:?}"
    );
}

async fn repetitions_end(ground: OpenGround) {
    let server = AnsweringServer::start([unavailable("no")]).await;
    let mut driver = ground.driver_at(server.address()).await;
    let error = driver
        .error("publish", json!({"queue": "q", "payload": 1}))
        .await;
    assert_eq!(error["code"], "storage_unavailable", "{error}");
    assert_eq!(
        server.requests().len(),
        8,
        "the request and seven repetitions"
    );
}

async fn a_read_is_repeated_after_a_broken_connection(ground: OpenGround) {
    let proxy = ground.proxy().await;
    let mut driver = ground.driver_at(proxy.address()).await;
    driver.ok("queue", json!({"queue": "q"})).await;
    hold_answers(&proxy);
    let pending = driver.send("queue", json!({"queue": "q"})).await;
    tokio::time::sleep(Duration::from_millis(300)).await;
    break_connections(&proxy);
    assert_eq!(pending.ok().await["queue"], "q");
}

async fn a_publish_whose_answer_was_lost_is_stored_once(ground: OpenGround) {
    let proxy = ground.proxy().await;
    let mut driver = ground.driver_at(proxy.address()).await;
    driver.ok("queue", json!({"queue": "q"})).await;
    hold_answers(&proxy);
    let pending = driver
        .send("publish", json!({"queue": "q", "payload": 1}))
        .await;
    let counted =
        async || ground.client.get("/queues/q").await.expect(200).json()["jobs"]["ready"].clone();
    eventually("the job is stored", ENOUGH, async || {
        match counted().await {
            ready if ready == 1 => Ok(()),
            ready => Err(ready.to_string()),
        }
    })
    .await;
    break_connections(&proxy);
    let published = pending.ok().await;
    assert_eq!(published["replayed"], true, "{published}");
    assert_eq!(counted().await, 1);
}

async fn an_ack_whose_answer_was_lost_is_repeated(ground: OpenGround) {
    let proxy = ground.proxy().await;
    ground.client.publish("q", "", "x").await.expect(201);
    let mut driver = ground.driver_at(proxy.address()).await;
    let jobs = driver.ok("reserve", json!({"queues": ["q"]})).await;
    hold_answers(&proxy);
    let pending = driver
        .send("ack", json!({"leases": [jobs[0]["lease"]]}))
        .await;
    let counted =
        async || ground.client.get("/queues/q").await.expect(200).json()["jobs"]["leased"].clone();
    eventually("the job is done", ENOUGH, async || match counted().await {
        leased if leased == 0 => Ok(()),
        leased => Err(leased.to_string()),
    })
    .await;
    break_connections(&proxy);
    assert_eq!(pending.ok().await, json!([{"outcome": "gone"}]));
}
