use serde_json::{Value, json};

use super::*;
use crate::v1::input::read_body;

fn read(body: &Value) -> Result<ReserveBody, InvalidRequest> {
    read_body(body.to_string().as_bytes(), &ConfigurableLimits::default())
}

#[track_caller]
fn expect_error(body: &Value, expected: &str) {
    let error = read(body).unwrap_err().to_string();
    assert!(error.starts_with(expected), "{body}: {error}");
}

#[test]
fn only_queues_are_required() {
    let body = read(&json!({"queues": ["emails"]})).unwrap();
    assert_eq!(
        (body.max_jobs.get(), body.wait, body.lease),
        (1, DurationMs::ZERO, None)
    );
    assert_eq!(body.queue_order(), QueueOrder::Strict);
    assert_eq!(body, ReserveBody::new(body.queues.clone()));
    assert_eq!(body.queues[0].weight, None);
}

#[test]
fn a_request_has_every_option() {
    let json = json!({
        "queues": ["emails", {"name": "bulk", "weight": 7}], "order": "weighted", "max_jobs": 256, "wait": "24h",
        "lease": "60s", "settle": {"ack": ["a"], "fail": [{"lease": "b", "error": "no"}]},
    });
    let body = read(&json).unwrap();
    assert_eq!(body.queues[1].weight.unwrap().get(), 7);
    assert_eq!(body.wait.as_ms(), 86_400_000);
    let written = serde_json::to_value(&body).unwrap();
    assert_eq!(written["queues"], json["queues"]);
    assert_eq!(read(&written).unwrap(), body);
    let implied = read(&json!({"queues": [{"name": "a"}, {"name": "b", "weight": 2}]})).unwrap();
    assert_eq!(implied.queue_order(), QueueOrder::Weighted);
    assert_eq!(
        read(&json!({"queues": [{"name": "a"}]}))
            .unwrap()
            .queue_order(),
        QueueOrder::Strict
    );
}

#[test]
fn other_queues_are_rejected() {
    let many: Vec<String> = (0..17).map(|number| format!("q{number}")).collect();
    for (body, expected) in [
        (json!({}), "invalid_body: missing field `queues`"),
        (
            json!({"queues": []}),
            "invalid_parameter: queues: there must be 1 to 16 items",
        ),
        (
            json!({"queues": many}),
            "invalid_parameter: queues: there must be 1 to 16 items, not 17",
        ),
        (
            json!({"queues": ["a", "a"]}),
            "invalid_parameter: queues[1]: the queue a is there twice",
        ),
        (
            json!({"queues": ["a b"]}),
            "invalid_name: queues[0]: the name of a queue",
        ),
        (
            json!({"queues": [7]}),
            "invalid_body: queues[0]: invalid type: integer `7`, expected the name of a queue",
        ),
        (
            json!({"queues": [{"name": "a", "wait": 1}]}),
            "invalid_body: queues[0].wait: unknown field",
        ),
        (
            json!({"queues": [{"name": "a", "weight": 0}]}),
            "invalid_parameter: queues[0].weight: the weight of a queue",
        ),
        (
            json!({"queues": [{"name": "a", "weight": 1}], "order": "strict"}),
            "invalid_parameter: queues[0].weight: weights need",
        ),
    ] {
        expect_error(&body, expected);
    }
}

#[test]
fn other_options_are_rejected() {
    for (body, expected) in [
        (
            json!({"queues": ["a"], "order": "random"}),
            "invalid_body: order: unknown variant",
        ),
        (
            json!({"queues": ["a"], "max_jobs": 0}),
            "invalid_parameter: max_jobs: ",
        ),
        (
            json!({"queues": ["a"], "max_jobs": 257}),
            "invalid_parameter: max_jobs: ",
        ),
        (
            json!({"queues": ["a"], "wait": "24h1ms"}),
            "invalid_parameter: wait: ",
        ),
        (
            json!({"queues": ["a"], "lease": "99ms"}),
            "invalid_parameter: lease: ",
        ),
        (
            json!({"queues": ["a"], "worker": ""}),
            "invalid_parameter: worker: the name of a worker",
        ),
        (
            json!({"queues": ["a"], "settle": {"fail": [{"lease": "a", "error": "", "dead": true, "retry_in": "1s"}]}}),
            "invalid_parameter: settle.fail[0].dead: ",
        ),
        (
            json!({"queues": ["a"], "settle": {"done": ["a"]}}),
            "invalid_body: settle.done: unknown field",
        ),
        (
            json!({"queues": ["a"], "timeout": 2}),
            "invalid_body: timeout: unknown field",
        ),
    ] {
        expect_error(&body, expected);
    }
}

#[test]
fn answers_round_trip() {
    let json = json!({"now": "2026-11-21T12:30:00.000Z", "jobs": [{
        "id": "01KAJ0000000000000000000AB", "queue": "emails", "lease": "abc", "lease_until": "2026-11-21T12:31:00.000Z",
        "attempt": 2, "failures": 1, "losses": 0, "run_at": "2026-11-21T12:29:59.000Z", "created_at": "2026-11-21T11:30:00.000Z",
        "key": "order-17", "attributes": {"Any": "name"}, "content_type": "application/json",
        "payload": null,
    }]});
    let answer: ReserveAnswer = serde_json::from_str(&json.to_string()).unwrap();
    assert_eq!(answer.jobs[0].payload.as_ref().unwrap().as_str(), "null");
    assert_eq!(serde_json::to_value(&answer).unwrap(), json);
}
