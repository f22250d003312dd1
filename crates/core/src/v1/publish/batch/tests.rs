use serde_json::{Value, json};

use super::*;
use crate::v1::input::read_body;
use crate::v1::values::ContentType;

fn read(body: &Value) -> Result<BatchBody, InvalidRequest> {
    read_body(body.to_string().as_bytes(), &ConfigurableLimits::default())
}

fn payload(item: &BatchItem) -> JobPayload {
    let (payload, _) = item.content.clone().into_parts().unwrap();
    payload
}

#[track_caller]
fn expect_error(body: &Value, expected: &str) {
    let error = read(body).unwrap_err().to_string();
    assert!(error.starts_with(expected), "{error}");
}

#[test]
fn items_have_a_payload_and_options() {
    let body = json!({"jobs": [
        {"payload": {"order": 17}, "delay": "5m", "key": "order-17", "attributes": {"tenant": "a"}},
        {"payload_base64": "/w==", "content_type": "image/png"},
        {"payload": null},
    ]});
    let batch = read(&body).unwrap();
    assert!(!batch.atomic);
    let [first, second, third] = batch.jobs.as_slice() else {
        panic!("three jobs");
    };
    assert_eq!(first.options.delay.unwrap().as_ms(), 300_000);
    assert_eq!(first.content.attributes.0["tenant"], "a");
    assert_eq!(payload(first).bytes, b"{\"order\":17}");
    assert_eq!(payload(second).content_type.as_str(), "image/png");
    assert_eq!(payload(third).bytes, b"null");
    let written = serde_json::to_string(&batch).unwrap();
    assert_eq!(serde_json::from_str::<BatchBody>(&written).unwrap(), batch);
}

#[test]
fn an_item_and_its_parts_are_the_same() {
    let options: JobOptions = serde_json::from_value(json!({
        "delay": "1ms", "key": "k", "if_exists": "reject", "retain": "2ms", "idempotency_key": "i", "durability": "fsync",
        "lease": "300ms", "max_attempts": 4, "retry": {"every": "5ms"}, "start_within": "6ms",
    }))
    .unwrap();
    let payload = JobPayload {
        bytes: b"[1]".to_vec(),
        content_type: ContentType::JSON,
    };
    let item = BatchItem::new(payload.clone(), JobAttributes::default(), options.clone());
    assert_eq!(item.options, options);
    assert_eq!(
        item.content.clone().into_parts(),
        Ok((payload, JobAttributes::default()))
    );
    let read = read(&json!({"jobs": [serde_json::to_value(&item).unwrap()]})).unwrap();
    assert_eq!(read.jobs[0], item);
}

#[test]
fn batches_have_limits() {
    let jobs = |count: usize| vec![json!({"payload": 1}); count];
    assert!(read(&json!({"jobs": jobs(1_000)})).is_ok());
    assert!(read(&json!({"jobs": jobs(64), "atomic": true})).is_ok());
    expect_error(
        &json!({"jobs": []}),
        "invalid_parameter: jobs: there must be 1 to 1000 items",
    );
    expect_error(
        &json!({"jobs": jobs(1_001)}),
        "invalid_parameter: jobs: there must be 1 to 1000 items",
    );
    let atomic = "invalid_parameter: jobs: there must be 1 to 64 items, not 65 if atomic is true";
    expect_error(&json!({"jobs": jobs(65), "atomic": true}), atomic);
    let large = "x".repeat(1 << 20);
    expect_error(
        &json!({"jobs": [{"payload": large}]}),
        "payload_too_large: jobs[0].payload: ",
    );
    assert!(read(&json!({"jobs": [{"payload": large[2..]}]})).is_ok());
}

#[test]
fn errors_name_the_item() {
    for (item, expected) in [
        (
            json!({}),
            "invalid_parameter: jobs[1].payload: a job needs payload",
        ),
        (
            json!({"payload": 1, "payload_base64": ""}),
            "invalid_parameter: jobs[1].payload: payload and payload_base64",
        ),
        (
            json!({"payload": 1, "content_type": "text/plain"}),
            "invalid_parameter: jobs[1].content_type: ",
        ),
        (
            json!({"payload_base64": "e", "delay": "1ms"}),
            "invalid_parameter: jobs[1].payload_base64: not base64",
        ),
        (
            json!({"payload_base64": "ew==", "content_type": "application/json"}),
            "payload_not_json: jobs[1].payload_base64: ",
        ),
        (
            json!({"payload": 1, "delay": "1ms", "run_at": 0}),
            "delay_and_run_at: jobs[1].run_at: ",
        ),
        (
            json!({"payload": 1, "run_at": "10000-01-01T00:00:00Z"}),
            "run_at_out_of_range: jobs[1].run_at: ",
        ),
        (
            json!({"payload": 1, "attributes": {":t": "x"}}),
            "invalid_parameter: jobs[1].attributes: ",
        ),
        (
            json!({"payload": 1, "attributes": {"a": 1}}),
            "invalid_body: jobs[1].attributes.a: invalid type",
        ),
        (
            json!({"payload": 1, "max_attempts": 1, "retry": {"max_attempts": 1}}),
            "invalid_parameter: jobs[1].max_attempts: ",
        ),
        (
            json!({"payload": 1, "retry": {"jitter": 7}}),
            "invalid_parameter: jobs[1].retry.jitter: ",
        ),
        (
            json!([1]),
            "invalid_body: jobs[1]: invalid type: sequence, expected a JSON object",
        ),
        (
            json!({"payload": 1, "retry": [3]}),
            "invalid_body: jobs[1].retry: invalid type: sequence, expected a JSON object",
        ),
        (
            json!({"payload": 1, "wait": "5s"}),
            "invalid_body: jobs[1].wait: unknown field `wait`",
        ),
    ] {
        expect_error(&json!({"jobs": [{"payload": 1}, item]}), expected);
    }
    expect_error(
        &json!({"jobs": [{"payload": 1}], "atomik": true}),
        "invalid_body: atomik: unknown field",
    );
}

#[test]
fn fields_of_items_are_known_and_there_once() {
    let twice = |field: &str| format!(r#"{{"jobs":[{{"payload":1,{field},{field}}}]}}"#);
    for (body, name) in [
        (twice(r#""delay":"1s""#), "delay"),
        (twice(r#""payload":2"#), "payload"),
    ] {
        let error = read_body::<BatchBody>(body.as_bytes(), &ConfigurableLimits::default());
        let expected = format!("invalid_body: jobs[0]: duplicate field `{name}`");
        assert_eq!(error.unwrap_err().to_string(), expected);
    }
    expect_error(
        &json!({"jobs": [{"dealy": "1s"}]}),
        "invalid_body: jobs[0].dealy: unknown field `dealy`, expected one of `payload`, `payload_base64`, `content_type`, \
         `attributes`, `delay`, `run_at`, `priority`, `group`, `key`, `if_exists`, `retain`, `idempotency_key`, `durability`, `lease`, \
         `max_attempts`, `retry`, `start_within`, `max_deliveries`, `ttl`",
    );
}
