use serde_json::{Value, json};

use super::*;
use crate::limits::ConfigurableLimits;
use crate::v1::input::read_body;
use crate::v1::problem::InvalidRequest;

fn read(body: &Value) -> Result<RelayConfig, InvalidRequest> {
    read_body(body.to_string().as_bytes(), &ConfigurableLimits::default())
}

fn source() -> Value {
    json!({"kind": "queue", "queue": "orders"})
}

/// A relay with this sink, with secrets checked too.
fn to_sink(sink: &Value) -> Result<RelayConfig, InvalidRequest> {
    let config = read(&json!({"source": source(), "sink": sink}))?;
    config.check_secrets().map(|()| config)
}

fn from_source(source: &Value) -> Result<RelayConfig, InvalidRequest> {
    let sink = json!({"kind": "webhook", "url": "https://a.example"});
    let config = read(&json!({"source": source, "sink": sink}))?;
    config.check_secrets().map(|()| config)
}

fn field_of(result: Result<RelayConfig, InvalidRequest>) -> Option<String> {
    let error = result.unwrap_err();
    let text = format!("{error} {error:?}");
    assert!(!text.contains("hunter2"), "{text}");
    error.field
}

#[test]
fn what_is_absent_has_its_default_and_is_written() {
    let sink = json!({"kind": "webhook", "url": "https://a.example"});
    let config = to_sink(&sink).unwrap();
    let expected = json!({
        "source": {"kind": "queue", "queue": "orders"},
        "sink": {
            "kind": "webhook", "url": "https://a.example", "allow_http": false, "allow_networks": [], "time_limit": "10s"
        },
        "paused": false, "concurrency": 1024, "batch": 256, "lease": "1m", "breaker_failures": 5,
        "breaker_pause": "1s", "breaker_pause_max": "1m",
    });
    let written = serde_json::to_value(&config).unwrap();
    assert_eq!(written, expected);
    assert_eq!(read(&written).unwrap(), config);
}

#[test]
fn each_kind_is_read() {
    for sink in [
        json!({"kind": "webhook", "url": "https://a.example/x,y@z", "secret": "whsec_aHVudGVyMg== whsec_aA=="}),
        json!({"kind": "webhook", "url": "http://10.0.0.1", "allow_http": true, "allow_networks": "10.0.0.0/8, fd00::1"}),
        json!({"kind": "nats", "url": "nats://a:4222, tls://b", "subject": "s.t", "user": "u", "password": "hunter2"}),
        json!({"kind": "nats", "url": "a:4222", "subject": "s", "token": "hunter2"}),
        json!({"kind": "rabbitmq", "url": "amqps://a/vhost", "exchange": "e", "user": "u", "password": "hunter2"}),
        json!({"kind": "tidegate", "url": "https://a", "namespace": "n", "queue": "q", "api_key": "tg_x", "retain": "7d"}),
    ] {
        let config = to_sink(&sink).unwrap_or_else(|error| panic!("{sink}: {error}"));
        assert_eq!(config.sink.kind(), sink["kind"]);
    }
    for source in [
        json!({"kind": "lmstfy", "url": "http://a:7777", "namespace": "n", "queue": "q", "token": "hunter2"}),
        json!({"kind": "tidegate", "url": "http://a", "namespace": "n", "queue": "q", "api_key": "hunter2"}),
    ] {
        let config = from_source(&source).unwrap_or_else(|error| panic!("{source}: {error}"));
        assert!(!format!("{config:?}").contains("hunter2"));
        assert_eq!(config.source.kind(), source["kind"]);
    }
}

fn assert_rejected(cases: &[(Value, &str)]) {
    for (sink, field) in cases {
        let result = to_sink(sink);
        assert_eq!(field_of(result).as_deref(), Some(*field), "{sink}");
    }
}

#[test]
fn a_webhook_that_cannot_work_is_rejected_with_the_field() {
    assert_rejected(&[
        (json!({"kind": "pulsar", "url": "https://a"}), "sink.kind"),
        (json!(["webhook", {"url": "https://a"}]), "sink"),
        (json!({"kind": "webhook"}), "sink.url"),
        (json!({"kind": "webhook", "url": "a.example"}), "sink.url"),
        (
            json!({"kind": "webhook", "url": "http://a.example"}),
            "sink.url",
        ),
        (
            json!({"kind": "webhook", "url": "https://10.0.0.1/"}),
            "sink.url",
        ),
        (
            json!({"kind": "webhook", "url": "https://[::1]/"}),
            "sink.url",
        ),
        (
            json!({"kind": "webhook", "url": "https://u:hunter2@a"}),
            "sink.url",
        ),
        (
            json!({"kind": "webhook", "url": "https://a", "allow_networks": ["10"]}),
            "sink.allow_networks",
        ),
        (
            json!({"kind": "webhook", "url": "https://a", "allow_networks": vec!["10.0.0.0/8"; 65]}),
            "sink.allow_networks",
        ),
        (
            json!({"kind": "webhook", "url": "https://a", "secret": "hunter2"}),
            "sink.secret",
        ),
        (
            json!({"kind": "webhook", "url": "https://a", "time_limit": "99ms"}),
            "sink.time_limit",
        ),
        (
            json!({"kind": "webhook", "url": "https://a", "time_limit": "40s"}),
            "lease",
        ),
    ]);
}

#[test]
fn another_sink_that_cannot_work_is_rejected_with_the_field() {
    assert_rejected(&[
        (json!({"kind": "nats", "url": "nats://a"}), "sink.subject"),
        (
            json!({"kind": "nats", "url": "nats://a", "subject": "a.*"}),
            "sink.subject",
        ),
        (
            json!({"kind": "nats", "url": "http://a", "subject": "s"}),
            "sink.url",
        ),
        (
            json!({"kind": "nats", "url": "nats://a,nats://hunter2@b", "subject": "s"}),
            "sink.url",
        ),
        (
            json!({"kind": "nats", "url": "nats://a", "subject": "s", "user": "u", "token": "hunter2"}),
            "sink.token",
        ),
        (
            json!({"kind": "rabbitmq", "url": "amqp://a"}),
            "sink.routing_key",
        ),
        (
            json!({"kind": "rabbitmq", "url": "amqp://a", "routing_key": "x".repeat(256)}),
            "sink.routing_key",
        ),
        (
            json!({"kind": "rabbitmq", "url": "amqp://u:hunter2@a", "routing_key": "q"}),
            "sink.url",
        ),
        (
            json!({"kind": "tidegate", "url": "https://a", "namespace": "n", "queue": "q"}),
            "sink.api_key",
        ),
        (
            json!({"kind": "tidegate", "url": "https://a", "namespace": "a b", "queue": "q", "api_key": "k"}),
            "sink.namespace",
        ),
        (
            json!({"kind": "tidegate", "url": "https://a", "namespace": "n", "queue": "q", "api_key": "hunter2 x"}),
            "sink.api_key",
        ),
        (
            json!({"kind": "tidegate", "url": "https://a", "namespace": "n", "queue": "q", "api_key": "k", "retain": "8d"}),
            "sink.retain",
        ),
    ]);
}

#[test]
fn other_settings_that_cannot_work_are_rejected_with_the_field() {
    for (source, field) in [
        (json!({"kind": "queue"}), "source.queue"),
        (
            json!({"kind": "tidegate", "namespace": "n", "queue": "q"}),
            "source.url",
        ),
        (
            json!({"kind": "lmstfy", "url": "http://a", "namespace": "n", "queue": "q"}),
            "source.token",
        ),
        (
            json!({"kind": "lmstfy", "url": "http://hunter2@a", "namespace": "n", "queue": "q", "token": "t"}),
            "source.url",
        ),
    ] {
        assert_eq!(
            field_of(from_source(&source)).as_deref(),
            Some(field),
            "{source}"
        );
    }
    for (field, value) in [
        ("concurrency", json!(0)),
        ("concurrency", json!(10_001)),
        ("batch", json!(257)),
        ("lease", json!("2h")),
        ("lease", json!("24999ms")),
        ("breaker_failures", json!(0)),
        ("breaker_pause", json!(9)),
        ("breaker_pause", json!("61s")),
        ("breaker_pause_max", json!("2h")),
        ("paused", json!("hunter2")),
        ("unknown", json!(1)),
    ] {
        let mut body = json!({"source": source(), "sink": {"kind": "webhook", "url": "https://a"}});
        body[field] = value.clone();
        let error = read(&body).unwrap_err();
        assert_eq!(error.field.as_deref(), Some(field), "{value}: {error}");
    }
}

#[test]
fn a_secret_of_another_type_is_not_repeated() {
    for secret in [
        json!(4711),
        json!(-4711),
        json!(47.11),
        json!(true),
        json!(null),
        json!([4711]),
    ] {
        let sink =
            json!({"kind": "rabbitmq", "url": "amqp://a", "routing_key": "q", "password": secret});
        let error = to_sink(&sink).unwrap_err().to_string();
        assert!(!error.contains("47") && error.contains("a text"), "{error}");
    }
}

fn nats(url: &str, more: &Value) -> RelayConfig {
    let mut sink = json!({"kind": "nats", "url": url, "subject": "s"});
    for (name, value) in more.as_object().unwrap() {
        sink[name] = value.clone();
    }
    to_sink(&sink).unwrap()
}

#[test]
fn an_absent_secret_stays_while_kind_and_url_stay() {
    let stored = nats("nats://a", &json!({"user": "u", "password": "hunter2"}));
    assert_eq!(stored.secret_names(), ["sink.password"]);
    assert_eq!(stored.clone().without_secrets().secret_names(), [""; 0]);

    let mut same = nats("nats://a", &json!({"user": "v"}));
    same.keep_secrets_of(&stored).unwrap();
    assert_eq!(same.secret_names(), ["sink.password"]);

    let mut removed = nats("nats://a", &json!({"password": ""}));
    removed.keep_secrets_of(&stored).unwrap();
    assert_eq!(removed.secret_names(), [""; 0]);

    let mut moved = nats("nats://b", &json!({"user": "u"}));
    let error = moved.keep_secrets_of(&stored).unwrap_err();
    assert_eq!(error.field.as_deref(), Some("sink.password"));
    let expected = "sink.password must be given again, since the url changes";
    assert!(error.detail.starts_with(expected), "{error}");

    let rabbit = json!({"kind": "rabbitmq", "url": "nats://a", "routing_key": "q"});
    let body = json!({"source": source(), "sink": rabbit});
    let mut other: RelayConfig = serde_json::from_value(body).unwrap();
    let error = other.keep_secrets_of(&stored).unwrap_err();
    assert!(error.detail.contains("since the kind changes"), "{error}");

    let kafka = |tls: bool| json!({"kind": "kafka", "url": "a:9092", "topic": "t", "user": "u", "tls": tls});
    let mut encrypted = kafka(true);
    encrypted["password"] = json!("hunter2");
    let encrypted = to_sink(&encrypted).unwrap();
    to_sink(&kafka(true))
        .unwrap()
        .keep_secrets_of(&encrypted)
        .unwrap();
    let mut open = to_sink(&kafka(false)).unwrap();
    let error = open.keep_secrets_of(&encrypted).unwrap_err();
    let expected = "since the encryption changes";
    assert!(error.detail.contains(expected), "{error}");
    let mut proven = kafka(false);
    (proven["password"], proven["mechanism"]) = (json!("hunter2"), json!("scram-sha-512"));
    let proven = to_sink(&proven).unwrap();
    let error = to_sink(&kafka(false))
        .unwrap()
        .keep_secrets_of(&proven)
        .unwrap_err();
    assert!(error.detail.contains(expected), "{error}");

    for url in [
        "u:hunter2@h:9092,b:9092",
        "h@b:1,c:2",
        "h:1,x:2@c:3,d:4",
        "a:1,u@b:2",
    ] {
        let mut sink = kafka(false);
        sink["url"] = json!(url);
        assert_eq!(
            field_of(to_sink(&sink)).as_deref(),
            Some("sink.url"),
            "{url}"
        );
    }

    // A kind without such a field has nothing to lose.
    let mut webhook = to_sink(&json!({"kind": "webhook", "url": "https://a"})).unwrap();
    webhook.keep_secrets_of(&stored).unwrap();
    assert_eq!(webhook.secret_names(), [""; 0]);
}
