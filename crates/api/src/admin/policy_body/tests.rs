use super::*;

fn put(body: &str) -> Result<QueuePolicy, BadPolicyBody> {
    merge(QueuePolicy::default(), body.as_bytes())
}

fn patch(base: &str, body: &str) -> Pause {
    merge(put(base).unwrap(), body.as_bytes()).unwrap().pause
}

#[test]
fn an_answer_can_be_sent_back() {
    for body in [
        "{}",
        r#"{"lease_ms":30000,"retry":{"delays_ms":[0,5],"jitter":0.333,"max_attempts":3},"retain_ms":1,"closed":true,"max_jobs":7,"max_running":5,"keep_dead_ms":1000}"#,
        r#"{"retry":{"first_ms":1000,"factor":1.1,"max_ms":2592000000}}"#,
        r#"{"paused":true}"#,
        r#"{"paused_until":1795263000001}"#,
    ] {
        let policy = put(body).unwrap();
        let shown = serde_json::to_string(&PolicyView::from(&policy)).unwrap();
        assert_eq!(put(&shown), Ok(policy), "{shown}");
    }
}

#[test]
fn fields_that_are_not_named_stay_and_null_is_the_default() {
    let base = put(r#"{"max_jobs":7,"closed":true,"retry":{"delays_ms":[5],"max_attempts":3}}"#);
    let merged = merge(
        base.unwrap(),
        br#"{"max_jobs":null,"lease_ms":1000,"retry":{"max_attempts":null,"jitter":1}}"#,
    );
    let merged = merged.unwrap();
    assert_eq!((merged.max_jobs, merged.closed), (None, true));
    assert_eq!(merged.lease_ms, 1000);
    assert_eq!(merged.retry.delays.steps, RetrySteps::Listed(vec![5]));
    assert_eq!(merged.retry.max_attempts, 10);
    assert_eq!(merged.retry.delays.jitter_permille, 1000);
}

#[test]
fn either_field_of_a_pause_suffices() {
    let end = Pause::Until(1_795_263_000_000);
    let until = r#"{"paused_until":"2026-11-21T12:10:00Z"}"#;
    assert_eq!(patch("{}", r#"{"paused":true}"#), Pause::UntilResumed);
    assert_eq!(patch("{}", until), end);
    assert_eq!(patch(r#"{"paused":true}"#, until), end);
    assert_eq!(patch(until, "{}"), end);
    assert_eq!(patch(until, r#"{"paused":false}"#), Pause::No);
    assert_eq!(patch(until, r#"{"paused":null}"#), Pause::No);
    assert_eq!(patch(until, r#"{"paused":true}"#), Pause::UntilResumed);
    assert_eq!(
        patch(until, r#"{"paused_until":null}"#),
        Pause::UntilResumed
    );
    assert_eq!(patch("{}", r#"{"paused_until":null}"#), Pause::No);
    assert_eq!(
        put(r#"{"paused":false,"paused_until":1795263000000}"#),
        Err(BadPolicyBody::EndWithoutPause)
    );
}

#[test]
fn a_body_that_is_no_policy_is_rejected_with_the_reason() {
    for (body, reason) in [
        ("", "JSON object"),
        ("[]", "JSON object"),
        ("{\"lease_ms\":1000", "JSON object"),
        (r#"{"leese_ms":1000}"#, "unknown field \"leese_ms\""),
        (r#"{"retry":{"every":1}}"#, "unknown field \"retry.every\""),
        (r#"{"retry":[1]}"#, "retry should be an object"),
        (r#"{"lease_ms":"60s"}"#, "lease_ms should be an integer"),
        (r#"{"lease_ms":-1}"#, "lease_ms should be an integer"),
        (r#"{"lease_ms":1e30}"#, "lease_ms should be an integer"),
        (
            r#"{"lease_ms":1}"#,
            "lease_ms should be from 100 to 86400000",
        ),
        (r#"{"max_jobs":0}"#, "max_jobs should be from 1"),
        (r#"{"max_running":0}"#, "max_running should be from 1"),
        (
            r#"{"retry":{"max_attempts":70000}}"#,
            "retry.max_attempts should be from 1 to 4095",
        ),
        (r#"{"retry":{"jitter":0.0001}}"#, "retry.jitter should be"),
        (r#"{"retry":{"jitter":1.5}}"#, "retry.jitter should be"),
        (
            r#"{"retry":{"delays_ms":["1s"]}}"#,
            "retry.delays_ms should be an array",
        ),
        (
            r#"{"retry":{"delays_ms":[5],"first_ms":5}}"#,
            "retry should be an object with delays_ms, or with first_ms",
        ),
        (
            r#"{"retry":{"first_ms":5000000}}"#,
            "retry.max_ms should be from 5000000",
        ),
        (
            r#"{"retry":{"factor":0.5}}"#,
            "retry.factor should be from 1 to 1000",
        ),
        (r#"{"paused":1}"#, "paused should be true or false"),
        (
            r#"{"paused_until":"tomorrow"}"#,
            "paused_until should be an instant",
        ),
        (
            r#"{"paused_until":18446744073709551615}"#,
            "paused_until should be from 1",
        ),
    ] {
        let error = put(body).unwrap_err().to_string();
        assert!(error.contains(reason), "{body}: {error}");
    }
    let long = format!("{{\"{}\":1}}", "x".repeat(3000));
    assert!(put(&long).unwrap_err().to_string().len() < 400);
}
