use serde_json::json;

use super::*;

fn policy(value: serde_json::Value) -> RetryChange {
    serde_json::from_value(value).unwrap()
}

/// The delays of a complete policy, as answers show them.
fn shown(value: serde_json::Value) -> serde_json::Value {
    let complete = policy(value).apply_to(&RetryPolicy::default()).unwrap();
    let mut shown = serde_json::to_value(complete).unwrap();
    shown
        .as_object_mut()
        .unwrap()
        .retain(|name, _| !["max_attempts", "jitter"].contains(&name.as_str()));
    shown
}

#[test]
fn each_way_to_give_delays_is_kept() {
    let listed = json!({"delays": ["2m", "10m", "1h"]});
    assert_eq!(
        shown(listed),
        json!({"delays_ms": [120_000, 600_000, 3_600_000]})
    );
    assert_eq!(
        shown(json!({"every": "30s"})),
        json!({"delays_ms": [30_000]})
    );
    let growing = |first, factor, max| json!({"first_ms": first, "factor": factor, "max_ms": max});
    assert_eq!(
        shown(json!({"first": "1s", "factor": 1.1, "max": "30d"})),
        growing(1_000, 1.1, 2_592_000_000_u64)
    );
    assert_eq!(
        shown(json!({"first": "1h"})),
        growing(3_600_000, 2.0, 3_600_000)
    );
    assert_eq!(shown(json!({})), growing(1_000, 2.0, 3_600_000));
}

#[test]
fn what_is_absent_is_as_in_the_policy_of_the_queue() {
    let of_queue = policy(json!({"max_attempts": 3, "every": "5s", "jitter": 0}))
        .apply_to(&RetryPolicy::default())
        .unwrap();
    let complete = policy(json!({"max_attempts": 4}))
        .apply_to(&of_queue)
        .unwrap();
    assert_eq!(complete.max_attempts, 4);
    assert_eq!(complete.delays, of_queue.delays);
    assert_eq!(complete.delays.jitter_permille, 0);
    assert!(!policy(json!({"jitter": 0.5})).has_delays());
}

#[test]
fn contradictions_and_ranges_are_rejected() {
    for (value, field) in [
        (json!({"delays": ["1s"], "every": "1s"}), "delays"),
        (json!({"every": "1s", "first": "1s"}), "every"),
        (json!({"delays": ["1s"], "first": "1s"}), "delays"),
        (json!({"factor": 2}), "factor"),
        (json!({"every": "1s", "max": "1h"}), "max"),
        (json!({"delays": []}), "delays"),
        (json!({"delays": vec!["1s"; 17]}), "delays"),
        (json!({"first": "0s"}), "first"),
        (json!({"first": "2h"}), "max"),
        (json!({"first": "2s", "max": "1s"}), "max"),
        (json!({"first": "1s", "factor": 0.5}), "factor"),
        (json!({"first": "1s", "factor": 1001}), "factor"),
        (json!({"delays": ["1s", "30d1ms"]}), "delays"),
        (json!({"every": "31d"}), "every"),
        (json!({"jitter": 1.1}), "jitter"),
        (json!({"jitter": -0.1}), "jitter"),
        (json!({"jitter": 0.1239}), "jitter"),
    ] {
        let error = policy(value.clone())
            .apply_to(&RetryPolicy::default())
            .unwrap_err();
        assert_eq!(error.field.as_deref(), Some(field), "{value}: {error}");
    }
    assert!(
        policy(json!({"delays": vec!["1s"; 16], "jitter": 1}))
            .check()
            .is_ok()
    );
    for value in [
        json!({"max_attempts": 0}),
        json!({"max_attempts": 4096}),
        json!({"tries": 3}),
    ] {
        assert!(serde_json::from_value::<RetryChange>(value).is_err());
    }
}

#[test]
fn answers_show_delays_in_ms() {
    let complete = policy(json!({"every": "30s", "max_attempts": 2}))
        .apply_to(&RetryPolicy::default())
        .unwrap();
    let json = serde_json::to_value(&complete).unwrap();
    assert_eq!(
        json,
        json!({"max_attempts": 2, "delays_ms": [30_000], "jitter": 0.1})
    );
    assert_eq!(
        serde_json::from_value::<RetryPolicy>(json).unwrap(),
        complete
    );
}
