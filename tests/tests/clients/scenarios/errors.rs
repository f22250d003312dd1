//! Each error has the class, the code and the fields that the contract says.

use std::net::Ipv4Addr;

use serde_json::{Value, json};
use tidegate_testkit::{NativeClient, free_port};

use super::scenarios;
use crate::answering::{AnsweringServer, ScriptedAnswer};
use crate::driver::Driver;
use crate::ground::OpenGround;

scenarios![
    a_wrong_key_is_an_auth_error,
    a_missing_scope_is_an_auth_error,
    a_missing_job_is_a_not_found_error,
    a_taken_key_is_a_conflict_error,
    a_reused_idempotency_key_is_a_conflict_error,
    a_closed_queue_is_a_conflict_error,
    a_full_queue_is_a_rate_limited_error,
    an_invalid_option_is_an_invalid_request_error,
    a_problem_has_all_its_fields,
    an_answer_of_a_proxy_is_a_server_error,
    a_server_that_is_not_there_is_a_connection_error,
];

fn expect(error: &Value, class: &str, status: u16, code: &str) {
    assert_eq!(
        (&error["class"], &error["status"], &error["code"]),
        (&json!(class), &json!(status), &json!(code)),
        "{error}"
    );
}

async fn publish_keyed(driver: &mut Driver, options: Value) -> Value {
    driver
        .error(
            "publish",
            json!({"queue": "q", "payload": 1, "options": options}),
        )
        .await
}

async fn a_wrong_key_is_an_auth_error(ground: OpenGround) {
    let server = ground.stack().api(0).listen();
    let wrong = "tg_7Q2M9XK4T1BC_0Q8X1V7Z4M2K6H9T3B5N8R1C7D";
    let mut driver = ground.driver_with_key(server, wrong).await;
    let error = driver.error("queue", json!({"queue": "q"})).await;
    expect(&error, "AuthError", 401, "key_invalid");
}

async fn a_missing_scope_is_an_auth_error(ground: OpenGround) {
    let api = ground.stack().api(0);
    let reader = NativeClient::with_scopes(api, ground.namespace(), &["read"]).await;
    let mut driver = ground.driver_with_key(api.listen(), reader.key()).await;
    let error = driver
        .error("publish", json!({"queue": "q", "payload": 1}))
        .await;
    expect(&error, "AuthError", 403, "scope_missing");
    assert_eq!(error["applied"], "no");
}

async fn a_missing_job_is_a_not_found_error(ground: OpenGround) {
    let mut driver = ground.driver().await;
    for verb in ["show", "cancel", "payload", "result", "promote"] {
        let error = driver
            .error(verb, json!({"queue": "q", "job": {"key": "none"}}))
            .await;
        expect(&error, "NotFoundError", 404, "job_not_found");
    }
}

async fn a_taken_key_is_a_conflict_error(ground: OpenGround) {
    let mut driver = ground.driver().await;
    driver
        .ok(
            "publish",
            json!({"queue": "q", "payload": 1, "options": {"key": "k"}}),
        )
        .await;
    let error = publish_keyed(&mut driver, json!({"key": "k", "if_exists": "reject"})).await;
    expect(&error, "ConflictError", 409, "key_taken");
    assert_eq!(error["applied"], "no");
    assert!(
        error["detail"]
            .as_str()
            .is_some_and(|text| text.contains("if_exists"))
    );
}

async fn a_reused_idempotency_key_is_a_conflict_error(ground: OpenGround) {
    let mut driver = ground.driver().await;
    let first = json!({"queue": "q", "payload": 0, "options": {"idempotency_key": "once"}});
    driver.ok("publish", first).await;
    let error = publish_keyed(&mut driver, json!({"idempotency_key": "once"})).await;
    expect(&error, "ConflictError", 422, "idempotency_key_reused");
}

async fn a_closed_queue_is_a_conflict_error(ground: OpenGround) {
    let mut driver = ground.driver().await;
    driver
        .ok(
            "set_policy",
            json!({"queue": "q", "policy": {"closed": true}}),
        )
        .await;
    let error = publish_keyed(&mut driver, json!({})).await;
    expect(&error, "ConflictError", 409, "queue_closed");
}

async fn a_full_queue_is_a_rate_limited_error(ground: OpenGround) {
    let mut driver = ground.driver().await;
    driver
        .ok(
            "set_policy",
            json!({"queue": "q", "policy": {"max_jobs": 1}}),
        )
        .await;
    driver
        .ok("publish", json!({"queue": "q", "payload": 1}))
        .await;
    let error = publish_keyed(&mut driver, json!({})).await;
    expect(&error, "RateLimitedError", 429, "queue_full");
    assert!(
        error["retry_after_ms"]
            .as_u64()
            .is_some_and(|ms| ms >= 1000),
        "{error}"
    );
}

async fn an_invalid_option_is_an_invalid_request_error(ground: OpenGround) {
    let mut driver = ground.driver().await;
    let both = json!({"delay_ms": 1000, "run_at_ms": 4_102_444_800_000_u64});
    for options in [json!({"priority": 9}), json!({"key": ""}), both] {
        let error = publish_keyed(&mut driver, options.clone()).await;
        assert_eq!(error["class"], "InvalidRequestError", "{options}: {error}");
        assert_eq!(error["applied"], "no", "{options}: {error}");
    }
    let error = driver
        .error("publish", json!({"queue": "bad name!", "payload": 1}))
        .await;
    assert_eq!(error["class"], "InvalidRequestError", "{error}");
}

async fn a_problem_has_all_its_fields(ground: OpenGround) {
    let problem = ScriptedAnswer::problem(503, "storage_unavailable", "unknown");
    let problem = problem
        .header("retry-after", "60")
        .with_field("jobs[3].delay");
    let server = AnsweringServer::start([problem]).await;
    let mut driver = ground.driver_at(server.address()).await;
    let error = driver.error("queue", json!({"queue": "q"})).await;
    expect(&error, "ServerError", 503, "storage_unavailable");
    assert_eq!(
        (
            &error["applied"],
            &error["field"],
            &error["retry_after_ms"],
            &error["detail"]
        ),
        (
            &json!("unknown"),
            &json!("jobs[3].delay"),
            &json!(60_000),
            &json!("as the scenario says")
        )
    );
}

async fn an_answer_of_a_proxy_is_a_server_error(ground: OpenGround) {
    let server = AnsweringServer::start([ScriptedAnswer::html(500)]).await;
    let mut driver = ground.driver_at(server.address()).await;
    let error = driver.error("queue", json!({"queue": "q"})).await;
    assert_eq!(
        (&error["class"], &error["status"]),
        (&json!("ServerError"), &json!(500))
    );
    assert_eq!(error["applied"], "unknown", "{error}");
}

async fn a_server_that_is_not_there_is_a_connection_error(ground: OpenGround) {
    let port = free_port().unwrap();
    let mut driver = ground.driver_at((Ipv4Addr::LOCALHOST, port).into()).await;
    let error = driver
        .error("publish", json!({"queue": "q", "payload": 1}))
        .await;
    assert_eq!(error["class"], "ConnectionError", "{error}");
    assert_eq!(error["applied"], "no", "nothing was sent: {error}");
}
