use std::borrow::Cow;

use serde_json::json;

use super::*;
use crate::v1::input::{merge_option_headers, read_query};
use crate::v1::problem::ProblemCode;

type Pairs = Vec<(Cow<'static, str>, Cow<'static, str>)>;

fn pairs(query: &[(&'static str, &'static str)]) -> Pairs {
    let pairs = query
        .iter()
        .map(|(name, value)| ((*name).into(), (*value).into()));
    pairs.collect()
}

fn read(
    query: &[(&'static str, &'static str)],
    headers: &[(&'static str, &'static [u8])],
) -> Result<JobOptions, InvalidRequest> {
    let merged = merge_option_headers(pairs(query), headers.iter().copied())?;
    read_query(&merged, &ConfigurableLimits::default())
}

fn error(
    query: &[(&'static str, &'static str)],
    headers: &[(&'static str, &'static [u8])],
) -> String {
    read(query, headers).unwrap_err().to_string()
}

const ALL: [(&str, &str); 11] = [
    ("run_at", "2026-11-21T12:30:00.000Z"),
    ("key", "order-17"),
    ("if_exists", "replace"),
    ("retain", "1d"),
    ("idempotency_key", "abc"),
    ("durability", "fsync+replica:1"),
    ("lease", "90s"),
    (
        "retry",
        r#"{"delays":["2m","10m"],"jitter":0.5,"max_attempts":4}"#,
    ),
    ("start_within", "PT5M"),
    ("delay", "30m"),
    ("max_attempts", "4"),
];

#[test]
fn a_query_has_every_option() {
    let options = read(&ALL[..9], &[]).unwrap();
    let expected = json!({
        "run_at": "2026-11-21T12:30:00.000Z",
        "key": "order-17",
        "if_exists": "replace",
        "retain": "1d",
        "idempotency_key": "abc",
        "durability": "fsync+replica:1",
        "lease": "1m30s",
        "retry": {"delays": ["2m", "10m"], "jitter": 0.5, "max_attempts": 4},
        "start_within": "5m",
    });
    assert_eq!(serde_json::to_value(&options).unwrap(), expected);
    assert_eq!(
        serde_json::from_value::<JobOptions>(expected).unwrap(),
        options
    );
    assert_eq!(options.attempts().unwrap().get(), 4);
    let due = DueTime::At("2026-11-21T12:30:00Z".parse().unwrap());
    assert_eq!(options.due(), due);
    let others = read(&ALL[9..], &[]).unwrap();
    assert_eq!(others.due(), DueTime::After("30m".parse().unwrap()));
    assert_eq!(others.attempts().unwrap().get(), 4);
    let none = read(&[], &[]).unwrap();
    assert_eq!(none, JobOptions::default());
    assert_eq!(none.due(), DueTime::After(DurationMs::ZERO));
}

#[test]
fn headers_have_the_same_options() {
    let headers: [(&str, &[u8]); 6] = [
        ("Tidegate-Run-At", b"2026-11-21T12:30:00Z"),
        ("tidegate-if-exists", b" reject "),
        ("Idempotency-Key", b"abc"),
        ("Tidegate-Start-Within", b"1h"),
        ("Content-Type", b"text/plain"),
        ("Tidegate-Max-Attempts", b"2"),
    ];
    let read = read(&[("key", "a b")], &headers).unwrap();
    assert_eq!(read.if_exists, Some(IfExists::Reject));
    assert_eq!(read.idempotency_key.unwrap().as_str(), "abc");
    assert_eq!(read.start_within.unwrap().as_ms(), 3_600_000);
    assert_eq!(read.max_attempts.unwrap().get(), 2);
    assert_eq!(read.key.unwrap().as_str(), "a b");
}

#[test]
fn an_option_is_given_once() {
    let both = error(&[("delay", "1s")], &[("tidegate-delay", b"1s")]);
    assert_eq!(
        both,
        "invalid_parameter: delay: delay is in the query and in the header tidegate-delay; send one of them"
    );
    let twice = error(&[], &[("tidegate-delay", b"1s"), ("Tidegate-Delay", b"1s")]);
    assert!(twice.contains("there twice"), "{twice}");
    let repeated = error(&[("delay", "1s"), ("delay", "1s")], &[]);
    assert!(
        repeated.contains("repeated parameter `delay`"),
        "{repeated}"
    );
}

#[test]
fn unknown_options_and_invalid_values_are_rejected() {
    for (query, expected) in [
        (
            ("dealy", "5m"),
            "invalid_parameter: dealy: unknown parameter `dealy`, expected one of `delay`",
        ),
        (
            ("Delay", "5m"),
            "invalid_parameter: Delay: unknown parameter",
        ),
        (
            ("delay", ""),
            "invalid_parameter: delay: \"\" is not a duration",
        ),
        (
            ("run_at", "2026-11-21T12:30:00"),
            "invalid_parameter: run_at: ",
        ),
        (
            ("run_at", "10000-01-01T00:00:00Z"),
            "run_at_out_of_range: run_at: ",
        ),
        (
            ("key", ""),
            "invalid_parameter: key: the key of a job must be 1 to 255 bytes",
        ),
        (
            ("if_exists", "Keep"),
            "invalid_parameter: if_exists: unknown variant `Keep`",
        ),
        (
            ("max_attempts", "0"),
            "invalid_parameter: max_attempts: the number of attempts must be from 1 to 4095",
        ),
        (
            ("max_attempts", "+3"),
            "invalid_parameter: max_attempts: \"+3\" is not a whole number",
        ),
        (
            ("priority", "5"),
            "invalid_parameter: priority: the priority must be from 0 to 4, not 5",
        ),
        (
            ("urgency", "1"),
            "invalid_parameter: urgency: unknown parameter `urgency`",
        ),
        (("max_attempts", "-1"), "invalid_parameter: max_attempts: "),
        (("durability", "disk"), "invalid_parameter: durability: "),
    ] {
        let error = error(&[query], &[]);
        assert!(error.starts_with(expected), "{query:?}: {error}");
    }
}

#[test]
fn invalid_policies_durations_and_headers_are_rejected() {
    for (query, expected) in [
        (
            ("retry", "5"),
            "invalid_parameter: retry: invalid type: integer `5`, expected a JSON object",
        ),
        (
            ("retry", "[3]"),
            "invalid_parameter: retry: invalid type: sequence, expected a JSON object",
        ),
        (
            ("retry", "{\"every\":\"1s\"} x"),
            "invalid_parameter: retry: not valid JSON: trailing characters",
        ),
        (
            ("retry", "{\"tries\":1}"),
            "invalid_parameter: retry.tries: unknown field `tries`",
        ),
        (
            ("retry", "{\"every\":\"-1s\"}"),
            "invalid_parameter: retry.every: \"-1s\" is not a duration",
        ),
        (
            ("retry", "{\"jitter\":2}"),
            "invalid_parameter: retry.jitter: ",
        ),
        (("lease", "99ms"), "invalid_parameter: lease: "),
        (("lease", "24h1ms"), "invalid_parameter: lease: "),
        (("retain", "7d1ms"), "invalid_parameter: retain: "),
        (("start_within", "0"), "invalid_parameter: start_within: "),
    ] {
        let error = error(&[query], &[]);
        assert!(error.starts_with(expected), "{query:?}: {error}");
    }
    let header = error(&[], &[("Tidegate-Dealy", b"5m")]);
    assert!(header.contains("unknown parameter `dealy`"), "{header}");
    let binary = error(&[], &[("Tidegate-Key", b"\xff")]);
    assert!(binary.contains("not UTF-8"), "{binary}");
}

#[test]
fn a_job_that_counts_deliveries_has_no_options_about_failures() {
    let counts = ("max_deliveries", "3");
    let options = read(&[counts, ("ttl", "6s")], &[]).unwrap();
    assert_eq!(options.max_deliveries.unwrap().get(), 3);
    assert_eq!(options.ttl.unwrap().as_ms(), 6000);
    for (query, field) in [
        (&[("ttl", "6s")][..], "ttl"),
        (&[counts, ("ttl", "0")], "ttl"),
        (&[counts, ("ttl", "6s"), ("delay", "7s")], "ttl"),
        (&[counts, ("max_attempts", "4")], "max_deliveries"),
        (&[counts, ("retry", "{}")], "max_deliveries"),
        (&[counts, ("start_within", "1s")], "max_deliveries"),
        (&[("max_deliveries", "0")], "max_deliveries"),
    ] {
        let invalid = read(query, &[]).unwrap_err();
        assert_eq!(invalid.field.as_deref(), Some(field), "{query:?}");
    }
}

#[test]
fn contradictions_are_rejected() {
    let both = read(&[("delay", "1s"), ("run_at", "1795264200000")], &[]).unwrap_err();
    assert_eq!(both.code, ProblemCode::DelayAndRunAt);
    let twice = error(
        &[("max_attempts", "2"), ("retry", "{\"max_attempts\":2}")],
        &[],
    );
    assert!(
        twice.contains("max_attempts and retry.max_attempts exclude each other"),
        "{twice}"
    );
    let lonely = error(&[("if_exists", "keep")], &[]);
    assert!(lonely.contains("needs key"), "{lonely}");
    for bound in ["100ms", "24h"] {
        assert!(read(&[("lease", bound), ("retain", "7d")], &[]).is_ok());
    }
}

#[test]
fn due_times_that_no_server_can_store_are_rejected() {
    let last = "2527-06-23T06:20:44.416Z";
    for option in [("run_at", last), ("delay", "17592186044416ms")] {
        assert!(read(&[option], &[]).is_ok(), "{option:?}");
    }
    for (name, value) in [
        ("run_at", "2527-06-23T06:20:44.417Z"),
        ("run_at", "9999-12-31T23:59:59.999Z"),
        ("delay", "17592186044417ms"),
    ] {
        let invalid = read(&[(name, value)], &[]).unwrap_err();
        assert_eq!(invalid.code, ProblemCode::RunAtOutOfRange, "{name}={value}");
        assert_eq!(invalid.field.as_deref(), Some(name));
    }
    let invalid = read(&[("start_within", "17592186044417ms")], &[]).unwrap_err();
    assert_eq!(invalid.field.as_deref(), Some("start_within"));
}

/// Hashes of this text are stored: see `request_hash` of the API.
#[test]
fn the_text_of_options_has_one_order_and_no_absent_fields() {
    let growing =
        r#"{"max":"1h","factor":1.5,"first":"1s","jitter":0.25,"every":null,"max_attempts":4}"#;
    let one_of_two = [&ALL[..7], &[("retry", growing), ALL[8]]].concat();
    assert_eq!(
        serde_json::to_string(&read(&one_of_two, &[]).unwrap()).unwrap(),
        r#"{"run_at":"2026-11-21T12:30:00.000Z","key":"order-17","if_exists":"replace","retain":"1d","idempotency_key":"abc","durability":"fsync+replica:1","lease":"1m30s","retry":{"max_attempts":4,"first":"1s","factor":1.5,"max":"1h","jitter":0.25},"start_within":"5m"}"#
    );
    let counted = [("ttl", "6s"), ("max_deliveries", "3"), ("delay", "6s")];
    assert_eq!(
        serde_json::to_string(&read(&counted, &[]).unwrap()).unwrap(),
        r#"{"delay":"6s","max_deliveries":3,"ttl":"6s"}"#
    );
}
