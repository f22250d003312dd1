//! Makes relays of their settings.

use std::sync::Arc;
use std::time::Duration;

use hyper::Uri;
use tidegate::api::relay::{RelayConfig, RelaySinkConfig, RelaySourceConfig};
use tidegate::api::values::RelayNameText;

use crate::circuit_breaker::CircuitBreaker;
use crate::relay::{Relay, RelayState};
use crate::sinks::RelaySink;
use crate::sinks::kafka::KafkaSink;
use crate::sinks::nats::NatsSink;
use crate::sinks::rabbitmq::RabbitMqSink;
use crate::sinks::tidegate::TidegateSink;
use crate::sinks::webhook::WebhookSink;
use crate::sources::RelaySource;
use crate::sources::lmstfy::LmstfySource;
use crate::sources::tidegate::TidegateSource;

/// The error for a source that only relays of the API have.
const QUEUE_IN_FILE: &str =
    "kind = \"queue\" is for relays that are set through the API; use kind = \"tidegate\"";

/// Makes a relay. Nothing is sent.
///
/// # Errors
/// A setting is missing or not valid; the error names it.
pub(crate) fn build_relay(name: &str, config: &RelayConfig) -> Result<Relay, String> {
    let at = |part: &'static str| move |problem: String| format!("relay.{name}.{part}{problem}");
    for checked in [config.check_settings(), config.check_secrets()] {
        checked.map_err(|invalid| match invalid.field {
            Some(field) => format!("relay.{name}.{field}: {}", invalid.detail),
            None => format!("relay.{name}: {}", invalid.detail),
        })?;
    }
    check_not_circular(config).map_err(|problem| format!("relay.{name}.sink.queue: {problem}"))?;
    let source = build_source(name, config).map_err(at("source."))?;
    let sink = build_sink(&config.sink).map_err(at("sink."))?;
    let time_limit = Duration::from(config.sink.time_limit());
    let breaker = CircuitBreaker::new(
        config.breaker_failures,
        config.breaker_pause.into(),
        config.breaker_pause_max.into(),
    );
    let (from, to) = (config.source.summary(), config.sink.summary());
    Ok(Relay {
        source,
        sink,
        state: Arc::new(RelayState::new(name, from, to, breaker)),
        concurrency: config.concurrency,
        batch: config.batch,
        time_limit,
        traces: None,
    })
}

/// Checks that the sink is not the queue that is the source: each job would be published there again and again, with
/// new ids as keys.
fn check_not_circular(config: &RelayConfig) -> Result<(), &'static str> {
    let RelaySinkConfig::Tidegate(sink) = &config.sink else {
        return Ok(());
    };
    let (url, namespace, queue) = match &config.source {
        RelaySourceConfig::Queue(_) => return Ok(()),
        RelaySourceConfig::Tidegate(source) => (&source.url, &source.namespace, &source.queue),
        RelaySourceConfig::Lmstfy(source) => (&source.url, &source.namespace, &source.queue),
    };
    let is_same_queue = *namespace == sink.namespace && *queue == sink.queue;
    match is_same_queue && server_of(url) == server_of(&sink.url) {
        true => Err(
            "it is the queue of the source: the relay would publish each job there again; name another queue",
        ),
        false => Ok(()),
    }
}

/// Host, port and path of a URL of HTTP. All names of this machine are the same host.
fn server_of(url: &str) -> Option<(String, u16, String)> {
    let url: Uri = url.trim().parse().ok()?;
    let host = url.host()?.trim_end_matches('.').to_ascii_lowercase();
    let host = match host.as_str() {
        "127.0.0.1" | "[::1]" => "localhost".to_owned(),
        _ => host,
    };
    let port = match url.scheme_str() {
        Some("https") => 443,
        _ => 80,
    };
    let path = url.path().trim_end_matches('/').to_owned();
    Some((host, url.port_u16().unwrap_or(port), path))
}

/// Checks the settings of a relay.
///
/// # Errors
/// The errors of [`build_relay`], and a name that is not valid.
pub(crate) fn check_relay(name: &str, config: &RelayConfig) -> Result<(), String> {
    let checked = name.parse::<RelayNameText>();
    checked.map_err(|invalid| format!("relay.{name}: {}", invalid.detail))?;
    build_relay(name, config).map(drop)
}

fn build_source(name: &str, config: &RelayConfig) -> Result<Arc<dyn RelaySource>, String> {
    let lease = Duration::from(config.lease);
    Ok(match &config.source {
        RelaySourceConfig::Queue(_) => return Err(QUEUE_IN_FILE.to_owned()),
        RelaySourceConfig::Tidegate(source) => Arc::new(TidegateSource::new(name, source, lease)?),
        RelaySourceConfig::Lmstfy(source) => Arc::new(LmstfySource::new(source, lease)?),
    })
}

fn build_sink(config: &RelaySinkConfig) -> Result<Arc<dyn RelaySink>, String> {
    Ok(match config {
        RelaySinkConfig::Webhook(sink) => Arc::new(WebhookSink::new(sink)?),
        RelaySinkConfig::Nats(sink) => Arc::new(NatsSink::new(sink)?),
        RelaySinkConfig::RabbitMq(sink) => Arc::new(RabbitMqSink::new(sink)?),
        RelaySinkConfig::Kafka(sink) => Arc::new(KafkaSink::new(sink)?),
        RelaySinkConfig::Tidegate(sink) => Arc::new(TidegateSink::new(sink)?),
    })
}
