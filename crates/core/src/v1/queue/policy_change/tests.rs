use serde_json::{Value, json};

use super::*;
use crate::v1::input::read_body;
use crate::{RetryPolicy, RetrySteps};

fn read(body: &Value) -> Result<PolicyChange, InvalidRequest> {
    read_body(body.to_string().as_bytes(), &ConfigurableLimits::default())
}

#[track_caller]
fn patched(policy: &Policy, body: &Value) -> Policy {
    read(body).unwrap().apply_to(policy).unwrap()
}

#[track_caller]
fn put(body: &Value) -> Policy {
    patched(&Policy::default(), body)
}

fn delays_ms(policy: &Policy) -> Vec<u64> {
    match &policy.retry.delays.steps {
        RetrySteps::Listed(delays) => delays.clone(),
        RetrySteps::Growing { .. } => Vec::new(),
    }
}

fn full() -> Value {
    json!({
        "lease": "90s", "retry": {"max_attempts": 3, "delays": ["2m", "10m"], "jitter": 0}, "retain": "1d",
        "paused": true, "paused_until": "2026-11-21T12:30:00Z", "closed": true, "max_jobs": 1000,
        "max_running": 8, "groups": {"max_running": 2}, "rate": {"jobs": 100}, "limit": "smtp",
        "keep_dead": "30d",
    })
}

#[test]
fn a_put_sets_every_field() {
    let policy = put(&full());
    assert_eq!(policy.lease_ms, 90_000);
    assert_eq!(
        (
            policy.retry.max_attempts,
            policy.retry.delays.jitter_permille
        ),
        (3, 0)
    );
    assert_eq!(delays_ms(&policy), [120_000, 600_000]);
    assert_eq!(policy.retain_ms, 86_400_000);
    assert!(policy.paused && policy.closed);
    assert_eq!(
        policy.paused_until.unwrap().to_string(),
        "2026-11-21T12:30:00.000Z"
    );
    assert_eq!(
        (policy.max_jobs, policy.max_running),
        (Some(1_000), Some(8))
    );
    assert_eq!(policy.groups.max_running, Some(2));
    let merged = patched(&policy, &json!({"groups": {}}));
    assert_eq!(merged, policy);
    let reset = patched(&policy, &json!({"groups": {"max_running": null}}));
    assert_eq!(reset.groups.max_running, None);
    assert_eq!(policy.rate.unwrap().to_string(), "100,1000");
    assert_eq!(policy.limit.unwrap().as_str(), "smtp");
    assert_eq!(policy.keep_dead_ms, Some(2_592_000_000));
    assert_eq!(put(&json!({})), Policy::default());
}

#[test]
fn a_patch_keeps_what_is_absent_and_null_resets() {
    let policy = put(&full());
    assert_eq!(patched(&policy, &json!({})), policy);
    let changed = patched(&policy, &json!({"lease": "5s"}));
    assert_eq!(
        changed,
        Policy {
            lease_ms: 5_000,
            ..policy.clone()
        }
    );
    for name in full().as_object().unwrap().keys() {
        let reset = patched(&policy, &json!({name: null}));
        assert_ne!(reset, policy, "{name}");
        let mut rest = full();
        rest[name] = Value::Null;
        if name == "paused" {
            rest["paused_until"] = Value::Null;
        }
        assert_eq!(reset, put(&rest), "{name}");
    }
}

#[test]
fn parts_of_a_retry_policy_are_merged() {
    let policy = put(&full());
    let attempts = patched(&policy, &json!({"retry": {"max_attempts": 7}}));
    assert_eq!(
        (attempts.retry.max_attempts, delays_ms(&attempts)),
        (7, vec![120_000, 600_000])
    );
    let every = patched(&policy, &json!({"retry": {"every": "30s"}}));
    assert_eq!(
        (every.retry.max_attempts, delays_ms(&every)),
        (3, vec![30_000])
    );
    let reset = patched(&policy, &json!({"retry": {"jitter": null}}));
    assert_eq!(
        (reset.retry.delays.jitter_permille, delays_ms(&reset)),
        (100, vec![120_000, 600_000])
    );
    for name in ["delays", "every", "first", "factor", "max"] {
        let reset = patched(&policy, &json!({"retry": {name: null}}));
        let mut expected = policy.retry.clone();
        expected.delays.steps = RetryPolicy::default().delays.steps;
        assert_eq!(reset.retry, expected, "{name}");
    }
    let growing = patched(&policy, &json!({"retry": {"first": "2s", "factor": 1.5}}));
    assert_eq!(
        serde_json::to_value(&growing.retry).unwrap(),
        json!({"max_attempts": 3, "first_ms": 2_000, "factor": 1.5, "max_ms": 3_600_000, "jitter": 0.0})
    );
    let replaced = patched(
        &policy,
        &json!({"retry": {"delays": null, "every": "1s", "max_attempts": null}}),
    );
    assert_eq!(
        (replaced.retry.max_attempts, delays_ms(&replaced)),
        (10, vec![1_000])
    );
}

#[test]
fn a_rate_is_merged_and_checked_as_a_whole() {
    let policy = put(&full());
    let jobs = patched(&policy, &json!({"rate": {"jobs": 7}}));
    assert_eq!(jobs.rate.unwrap().to_string(), "7,1000");
    let none = patched(&policy, &json!({"rate": null}));
    for (change, field) in [
        (json!({"rate": {"per": "1s"}}), "rate.jobs"),
        (json!({"rate": {"jobs": null}}), "rate.jobs"),
    ] {
        let invalid = read(&change).unwrap().apply_to(&none).unwrap_err();
        assert_eq!(invalid.field.as_deref(), Some(field));
    }
}

#[test]
fn a_resumed_queue_forgets_when_its_pause_ends() {
    let policy = put(&full());
    let resumed = patched(&policy, &json!({"paused": false}));
    assert_eq!(resumed.paused_until, None);
    let paused = patched(&resumed, &json!({"paused": true}));
    assert_eq!((paused.paused, paused.paused_until), (true, None));
    let later = patched(&policy, &json!({"paused_until": "2027-01-01T00:00:00Z"}));
    assert_eq!(
        later.paused_until.unwrap().to_string(),
        "2027-01-01T00:00:00.000Z"
    );
}

#[test]
fn the_end_of_a_pause_alone_pauses() {
    let until = "2027-01-01T00:00:00Z";
    let paused = patched(&Policy::default(), &json!({"paused_until": until}));
    assert!(paused.paused && paused.paused_until.is_some());
    let contradiction = read(&json!({"paused": false, "paused_until": until})).unwrap();
    let error = contradiction.apply_to(&Policy::default());
    assert_eq!(error.unwrap_err().field.as_deref(), Some("paused_until"));
}

#[test]
fn other_policies_are_rejected() {
    for (body, expected) in [
        (json!({"lease": "99ms"}), "invalid_parameter: lease: "),
        (
            json!({"lease_ms": 60_000}),
            "invalid_body: lease_ms: unknown field",
        ),
        (json!({"retain": "7d1ms"}), "invalid_parameter: retain: "),
        (json!({"max_jobs": 0}), "invalid_parameter: max_jobs: "),
        (
            json!({"max_running": 0}),
            "invalid_parameter: max_running: ",
        ),
        (
            json!({"rate": {"jobs": 1, "per": "2d"}}),
            "invalid_parameter: rate.per: ",
        ),
        (
            json!({"rate": {"jobs": 0}}),
            "invalid_parameter: rate.jobs: ",
        ),
        (json!({"limit": "a/b"}), "invalid_parameter: limit: "),
        (json!({"max_jobs": -1}), "invalid_body: max_jobs: "),
        (json!({"paused": "yes"}), "invalid_body: paused: "),
        (
            json!({"paused_until": "10000-01-01T00:00:00Z"}),
            "invalid_parameter: paused_until: ",
        ),
        (
            json!({"retry": {"every": "1s", "delays": ["1s"]}}),
            "invalid_parameter: retry.delays: ",
        ),
        (
            json!({"retry": {"max": "1h"}}),
            "invalid_parameter: retry.max: ",
        ),
        (
            json!({"retry": {"tries": 3}}),
            "invalid_body: retry.tries: unknown field",
        ),
        (
            json!({"retry": 3}),
            "invalid_body: retry: invalid type: integer `3`, expected a JSON object",
        ),
        (
            json!({"retry": [3]}),
            "invalid_body: retry: invalid type: sequence, expected a JSON object",
        ),
        (
            json!({"groups": {"running": 1}}),
            "invalid_body: groups.running: unknown field",
        ),
        (
            json!({"groups": {"max_running": 0}}),
            "invalid_parameter: groups.max_running: ",
        ),
        (
            json!({"groups": 1}),
            "invalid_body: groups: invalid type: integer `1`, expected a JSON object",
        ),
    ] {
        let error = read(&body).unwrap_err().to_string();
        assert!(error.starts_with(expected), "{body}: {error}");
    }
}

#[test]
fn bodies_round_trip() {
    for body in [
        full(),
        json!({}),
        json!({"lease": null, "retry": {"jitter": null}}),
    ] {
        let change = read(&body).unwrap();
        let written = serde_json::to_value(&change).unwrap();
        assert_eq!(read(&written).unwrap(), change);
        let names = |value: &Value| {
            value
                .as_object()
                .unwrap()
                .keys()
                .cloned()
                .collect::<Vec<_>>()
        };
        assert_eq!(names(&written), names(&body));
    }
}

/// The end of a pause stays in the policy when it has passed.
#[test]
fn a_pause_that_begins_does_not_end_with_an_earlier_one() {
    let until = put(&json!({"paused_until": "2026-11-21T12:30:00Z"}));
    assert!(until.paused && until.paused_until.is_some());
    let paused = patched(&until, &json!({"paused": true}));
    assert_eq!((paused.paused, paused.paused_until), (true, None));
    let kept = patched(&until, &json!({"max_jobs": 1}));
    assert_eq!(kept.paused_until, until.paused_until);
    let resumed = patched(&until, &json!({"paused": false}));
    assert_eq!((resumed.paused, resumed.paused_until), (false, None));
}
