use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use super::*;
use crate::v1::input::read_body;

fn read<T: CheckedRequest>(body: &Value) -> Result<T, InvalidRequest> {
    read_body(body.to_string().as_bytes(), &ConfigurableLimits::default())
}

#[track_caller]
fn expect_error<T: CheckedRequest + fmt::Debug>(body: &Value, expected: &str) {
    let error = read::<T>(body).unwrap_err().to_string();
    assert!(error.starts_with(expected), "{body}: {error}");
}

#[track_caller]
fn round_trip<T: CheckedRequest + Serialize + DeserializeOwned + PartialEq + fmt::Debug>(
    body: &Value,
) -> T {
    let request: T = read(body).unwrap();
    let written = serde_json::to_value(&request).unwrap();
    assert_eq!(read::<T>(&written).unwrap(), request);
    request
}

#[test]
fn acks_are_leases_or_objects() {
    let body: AckBody = round_trip(&json!({"leases": ["a", {"lease": "b"}]}));
    let leases: Vec<&str> = body.leases.iter().map(|item| item.lease.as_str()).collect();
    assert_eq!(leases, ["a", "b"]);
    expect_error::<AckBody>(
        &json!({"leases": [7]}),
        "invalid_body: leases[0]: invalid type: integer `7`, expected a lease",
    );
    expect_error::<AckBody>(
        &json!({"leases": [{"lease": "a", "answer": 1}]}),
        "invalid_body: leases[0].answer: unknown field",
    );
    expect_error::<AckBody>(
        &json!({"leases": [{}]}),
        "invalid_body: leases[0]: missing field `lease`",
    );
    expect_error::<AckBody>(
        &json!({"leases": ["a", "b c"]}),
        "invalid_parameter: leases[1]: a lease must be",
    );
}

#[test]
fn a_done_job_may_have_a_result() {
    let body: AckBody = round_trip(&json!({"leases": [
        "a",
        {"lease": "b", "result": {"total": 7}},
        {"lease": "c", "result": null},
        {"lease": "d", "result_base64": "YWJj", "content_type": "text/plain"},
    ]}));
    let results = body.leases.into_iter().map(|item| {
        let (_, result) = item.into_parts().unwrap();
        result.map(|it| {
            (
                String::from_utf8(it.bytes).unwrap(),
                it.content_type.to_string(),
            )
        })
    });
    let expected =
        |bytes: &str, content_type: &str| Some((bytes.to_owned(), content_type.to_owned()));
    assert_eq!(
        results.collect::<Vec<_>>(),
        [
            None,
            expected(r#"{"total":7}"#, "application/json"),
            expected("null", "application/json"),
            expected("abc", "text/plain"),
        ]
    );
    let item = |item: Value| json!({"leases": ["a", item]});
    expect_error::<AckBody>(
        &item(json!({"lease": "b", "result": 1, "result_base64": "YQ=="})),
        "invalid_parameter: leases[1].result: result and result_base64 exclude each other",
    );
    expect_error::<AckBody>(
        &item(json!({"lease": "b", "content_type": "text/plain"})),
        "invalid_parameter: leases[1].content_type: content_type belongs to result",
    );
    expect_error::<AckBody>(
        &item(json!({"lease": "b", "result": "x".repeat(300_000)})),
        "payload_too_large: leases[1].result: the result has more than 262144 bytes",
    );
}

#[test]
fn failures_are_retried_or_dead() {
    let body: FailBody = round_trip(&json!({"leases": [
        {"lease": "a", "error": "smtp: 550", "dead": true},
        {"lease": "b", "error": "e".repeat(5_000), "retry_in": "5m"},
        {"lease": "c", "error": "", "retry_in": "0s", "dead": false},
    ]}));
    assert!(body.leases[0].dead && !body.leases[1].dead);
    assert_eq!(body.leases[1].error.as_str().len(), 1_024);
    assert_eq!(body.leases[2].retry_in, Some(DurationMs::ZERO));
    let both = json!({"leases": [{"lease": "a", "error": ""}, {"lease": "a", "error": "", "retry_in": "1ms", "dead": true}]});
    expect_error::<FailBody>(
        &both,
        "invalid_parameter: leases[1].dead: dead and retry_in exclude each other",
    );
    expect_error::<FailBody>(
        &json!({"leases": [{"lease": "a"}]}),
        "invalid_body: leases[0]: missing field `error`",
    );
    expect_error::<FailBody>(
        &json!({"leases": ["a"]}),
        "invalid_body: leases[0]: invalid type: string",
    );
}

#[test]
fn touches_and_releases_have_leases_and_one_duration() {
    let touch: TouchBody = round_trip(&json!({"leases": ["a"], "lease": "24h"}));
    assert_eq!(touch.lease.unwrap().as_ms(), 86_400_000);
    let release: ReleaseBody = round_trip(&json!({"leases": ["a", "b"], "delay": "5s"}));
    assert_eq!(release.delay.unwrap().as_ms(), 5_000);
    assert_eq!(
        round_trip::<ReleaseBody>(&json!({"leases": ["a"]})).delay,
        None
    );
    expect_error::<TouchBody>(
        &json!({"leases": ["a"], "lease": "99ms"}),
        "invalid_parameter: lease: a lease must be",
    );
    expect_error::<TouchBody>(
        &json!({"leases": [{"lease": "a"}]}),
        "invalid_body: leases[0]: ",
    );
    expect_error::<ReleaseBody>(
        &json!({"leases": ["a"], "lease": 1}),
        "invalid_body: lease: unknown field",
    );
}

#[test]
fn a_call_has_1_to_1000_leases() {
    fn check<T: CheckedRequest + fmt::Debug>(item: &Value) {
        let body = |count| json!({"leases": vec![item.clone(); count]});
        assert!(read::<T>(&body(1_000)).is_ok());
        expect_error::<T>(
            &body(0),
            "invalid_parameter: leases: there must be 1 to 1000 items",
        );
        expect_error::<T>(
            &body(1_001),
            "invalid_parameter: leases: there must be 1 to 1000 items",
        );
    }
    check::<AckBody>(&json!("a"));
    check::<FailBody>(&json!({"lease": "a", "error": "e"}));
    check::<TouchBody>(&json!("a"));
    check::<ReleaseBody>(&json!("a"));
}
