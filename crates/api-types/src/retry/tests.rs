use proptest::prelude::*;
use serde_json::json;

use super::*;

fn policy(value: serde_json::Value) -> RetryPolicyBody {
    serde_json::from_value(value).unwrap()
}

fn delays_ms(value: serde_json::Value) -> Vec<u64> {
    let ladder = policy(value).to_ladder(&RetryLadder::default()).unwrap();
    ladder.delays.iter().map(|delay| delay.as_ms()).collect()
}

#[test]
fn each_way_becomes_a_list_of_delays() {
    assert_eq!(
        delays_ms(json!({"delays": ["2m", "10m", 3_600_000]})),
        [120_000, 600_000, 3_600_000]
    );
    assert_eq!(delays_ms(json!({"every": "30s"})), [30_000]);
    assert_eq!(
        delays_ms(json!({"first": "1s", "factor": 2, "max": "10s"})),
        [1_000, 2_000, 4_000, 8_000, 10_000]
    );
    assert_eq!(
        delays_ms(json!({"first": "1s", "factor": 1, "max": "1h"})),
        [1_000]
    );
    assert_eq!(delays_ms(json!({"first": "1h"})), [3_600_000]);
    assert_eq!(
        delays_ms(json!({"first": 3, "factor": 1.5, "max": 8})),
        [3, 5, 7, 8]
    );
    let default: Vec<u64> = RetryLadder::default()
        .delays
        .iter()
        .map(|delay| delay.as_ms())
        .collect();
    assert_eq!(delays_ms(json!({})), default);
    assert_eq!(delays_ms(json!({"first": "1s"})), default);
    assert_eq!(
        (default.len(), default[0], default[11], default[12]),
        (13, 1_000, 2_048_000, 3_600_000)
    );
}

#[test]
fn at_most_16_delays_are_kept_and_the_last_one_repeats() {
    let grown = delays_ms(json!({"first": "1s", "factor": 1.1, "max": "1h"}));
    assert_eq!((grown.len(), grown[15]), (16, 4_177));
    let ladder = policy(json!({"delays": ["1s", "2s"]}))
        .to_ladder(&RetryLadder::default())
        .unwrap();
    let after = |failures| ladder.delay_after(failures).as_ms();
    assert_eq!(
        [after(0), after(1), after(2), after(3), after(4_095)],
        [1_000, 1_000, 2_000, 2_000, 2_000]
    );
}

#[test]
fn what_is_absent_is_as_in_the_policy_of_the_queue() {
    let of_queue = policy(json!({"max_attempts": 3, "every": "5s", "jitter": 0}))
        .to_ladder(&RetryLadder::default())
        .unwrap();
    let ladder = policy(json!({"max_attempts": 4}))
        .to_ladder(&of_queue)
        .unwrap();
    assert_eq!(ladder.max_attempts.get(), 4);
    assert_eq!((ladder.delays, ladder.jitter), (of_queue.delays, 0.0));
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
        (json!({"first": 0}), "first"),
        (json!({"first": "2h"}), "max"),
        (json!({"first": "2s", "max": "1s"}), "max"),
        (json!({"first": "1s", "factor": 0.5}), "factor"),
        (json!({"first": "1s", "factor": 1001}), "factor"),
        (json!({"delays": ["1s", "30d1ms"]}), "delays"),
        (json!({"every": "31d"}), "every"),
        (json!({"jitter": 1.1}), "jitter"),
        (json!({"jitter": -0.1}), "jitter"),
    ] {
        let error = policy(value.clone())
            .to_ladder(&RetryLadder::default())
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
        assert!(serde_json::from_value::<RetryPolicyBody>(value).is_err());
    }
}

#[test]
fn answers_show_all_delays_in_ms() {
    let ladder = policy(json!({"every": "30s", "max_attempts": 2}))
        .to_ladder(&RetryLadder::default())
        .unwrap();
    let json = serde_json::to_value(&ladder).unwrap();
    assert_eq!(
        json,
        json!({"max_attempts": 2, "delays_ms": [30_000], "jitter": 0.1})
    );
    assert_eq!(serde_json::from_value::<RetryLadder>(json).unwrap(), ladder);
}

proptest! {
    #[test]
    fn growing_delays_never_shrink_and_keep_their_bounds(
        first in 1_u64..10_000_000, factor in 1.0..1_000.0_f64, more in 0_u64..1_000_000_000,
    ) {
        let (first, longest) = (DurationMs::saturating(first), DurationMs::saturating(first + more));
        let delays = growing(first, factor, longest);
        prop_assert!((1..=RETRY_DELAYS_MAX).contains(&delays.len()));
        prop_assert!(delays.is_sorted());
        prop_assert_eq!(delays[0], first);
        prop_assert!(delays[delays.len() - 1] <= longest);
    }
}
