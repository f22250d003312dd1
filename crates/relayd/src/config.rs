//! Settings of the daemon. `config/relayd.toml` contains the defaults and describes every key.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde::Deserialize;
use tidegate::api::relay::{RelayConfig, SecretText, TextList};
use tidegate_daemon::Settings;
use tidegate_daemon::traces::{SAMPLE_ONE_IN_BOUND, TracesConfig};
use tidegate_daemon::{Bound, LogConfig};

use crate::assembly::check_relay;

/// The built-in defaults of all keys, with comments.
pub const DEFAULTS: &str = include_str!("../../../config/relayd.toml");

/// The keys of relays, which have no defaults in the file, with an example of each.
const OPTIONAL: &str = r#"
[relay."*"]
paused = false
concurrency = 1
batch = 1
lease = "1m"
breaker_failures = 1
breaker_pause = "1s"
breaker_pause_max = "1m"
[relay."*".source]
kind = "tidegate"
url = ""
namespace = ""
queue = ""
api_key = ""
token = ""
[relay."*".sink]
kind = "webhook"
url = ""
secret = ""
allow_http = false
allow_networks = []
subject = ""
user = ""
password = ""
token = ""
exchange = ""
routing_key = ""
topic = ""
key = ""
mechanism = "plain"
tls = false
namespace = ""
queue = ""
api_key = ""
retain = "10m"
time_limit = "10s"
"#;

const SECOND: Duration = Duration::from_secs(1);
const HOUR: Duration = Duration::from_secs(3600);

/// Minimum and maximum of every number and duration.
const BOUNDS: [(&str, Bound); 10] = [
    SAMPLE_ONE_IN_BOUND,
    ("stop_grace", Bound::Duration(Duration::ZERO, HOUR)),
    ("relay.*.concurrency", Bound::Number(1, 10_000)),
    // The most jobs that one call reserves.
    ("relay.*.batch", Bound::Number(1, 256)),
    ("relay.*.lease", Bound::Duration(SECOND, HOUR)),
    ("relay.*.breaker_failures", Bound::Number(1, 1000)),
    (
        "relay.*.breaker_pause",
        Bound::Duration(Duration::from_millis(10), HOUR),
    ),
    (
        "relay.*.breaker_pause_max",
        Bound::Duration(Duration::from_millis(10), HOUR),
    ),
    (
        "relay.*.sink.retain",
        Bound::Duration(Duration::ZERO, Duration::from_secs(7 * 24 * 3600)),
    ),
    (
        "relay.*.sink.time_limit",
        Bound::Duration(Duration::from_millis(100), HOUR),
    ),
];

/// All settings of `tidegate-relayd`.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RelaydConfig {
    /// Address of the admin port.
    pub admin_listen: SocketAddr,
    /// How long a stop waits for deliveries in flight.
    #[serde(with = "tidegate_duration")]
    pub stop_grace: Duration,
    /// Logging.
    pub log: LogConfig,
    /// Spans, and where they are sent.
    pub traces: TracesConfig,
    /// File for the process id; empty = none.
    pub pid_file: PathBuf,
    /// The API whose relays run here, too.
    pub api: StoredRelaysConfig,
    /// The relays, by name.
    #[serde(default)]
    pub relay: BTreeMap<String, RelayConfig>,
}

/// The API whose relays run here, too.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct StoredRelaysConfig {
    /// The API, from which queues are consumed. Empty = only the relays of the settings run.
    pub url: String,
    /// An API key with the scope `consume` for all namespaces.
    pub api_key: SecretText,
    /// Its admin port, which shows the relays.
    pub admin: AdminPortConfig,
    /// Hosts of brokers and servers that such relays may use.
    pub allow_hosts: TextList,
    /// Networks that webhooks of such relays may use besides public addresses.
    pub allow_networks: TextList,
}

/// The admin port of the API.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AdminPortConfig {
    /// Its address.
    pub url: String,
    /// The account, if accounts are required.
    pub user: String,
    /// Its password.
    pub password: SecretText,
}

impl Settings for RelaydConfig {
    const PROGRAM: &'static str = "tidegate-relayd";
    const DEFAULTS: &'static str = DEFAULTS;
    const OPTIONAL: &'static str = OPTIONAL;
    const HAS_POOLS: bool = false;
    const BOUNDS: &'static [(&'static str, Bound)] = &BOUNDS;
    const RELOADABLE: &'static [&'static str] = &["log.level"];
    /// Processes may share an environment.
    const SIBLING: &'static str = include_str!("../../../config/api.toml");
    const FROM_LMSTFY: &'static [&'static str] = &[];

    fn check(&self) -> Result<(), String> {
        for (name, relay) in &self.relay {
            check_relay(name, relay)?;
        }
        Ok(())
    }

    fn log(&self) -> &LogConfig {
        &self.log
    }

    fn traces(&self) -> &TracesConfig {
        &self.traces
    }

    fn pid_file(&self) -> &Path {
        &self.pid_file
    }
}

#[cfg(test)]
mod tests {
    use tidegate::api::relay::RELAY_BOUNDS;
    use tidegate_daemon::schema;
    use tidegate_daemon::{LoadedConfig, Sources, load};

    use super::*;

    #[test]
    fn every_number_and_duration_has_bounds() {
        assert_eq!(schema::<RelaydConfig>().unwrap().gaps(), [""; 0]);
    }

    /// The settings of a file with this text: read and checked, or the error.
    fn read(text: &str) -> Result<RelaydConfig, String> {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), text).unwrap();
        let sources = Sources {
            defaults: DEFAULTS,
            schema: &schema::<RelaydConfig>().unwrap(),
            foreign: None,
            file: Some(file.path()),
            env_prefix: "TIDEGATE",
            sibling: RelaydConfig::SIBLING,
            environment: &[],
            flags: &[],
        };
        let loaded: LoadedConfig<RelaydConfig> =
            load(&sources).map_err(|error| error.to_string())?;
        assert!(!loaded.values.print().contains("hunter2"));
        loaded.settings.check().map(|()| loaded.settings)
    }

    const SOURCE: &str = "[relay.a.source]\nkind = \"tidegate\"\nurl = \"http://localhost:7777\"\n\
        namespace = \"n\"\nqueue = \"q\"\napi_key = \"hunter2\"\n";

    #[test]
    fn each_kind_of_sink_is_read_and_what_it_does_not_have_is_an_error() {
        for (sink, problem) in [
            (
                "kind = \"webhook\"\nurl = \"https://a.example\"\nsecret = \"whsec_aHVudGVyMg==\"",
                None,
            ),
            (
                "kind = \"nats\"\nurl = \"nats://a:4222\"\nsubject = \"s\"\npassword = \"hunter2\"\nuser = \"u\"",
                None,
            ),
            (
                "kind = \"rabbitmq\"\nurl = \"amqp://a:5672\"\nrouting_key = \"s\"\npassword = \"hunter2\"",
                None,
            ),
            (
                "kind = \"tidegate\"\nurl = \"https://a.example\"\nnamespace = \"n\"\nqueue = \"q\"\napi_key = \"hunter2\"",
                None,
            ),
            ("kind = \"pulsar\"", Some("pulsar")),
            (
                "kind = \"webhook\"\nurl = \"https://10.0.0.1/\"\nallow_networks = \"10.0.0.0/8, fd00::/8\"",
                None,
            ),
            ("kind = \"webhook\"", Some("relay.a.sink.url")),
            (
                "kind = \"webhook\"\nurl = \"http://a.example\"",
                Some("allow_http"),
            ),
            (
                "kind = \"webhook\"\nurl = \"https://10.0.0.1/\"",
                Some("allow_networks"),
            ),
            (
                "kind = \"webhook\"\nurl = \"https://a.example\"\nsecret = \"hunter2\"",
                Some("relay.a.sink.secret"),
            ),
            (
                "kind = \"webhook\"\nurl = \"https://a.example\"\nallow_networks = [\"10\"]",
                Some("allow_networks"),
            ),
            (
                "kind = \"webhook\"\nurl = \"https://a.example\"\nsubject = \"x\"",
                Some("subject"),
            ),
            (
                "kind = \"nats\"\nurl = \"nats://a:4222\"",
                Some("relay.a.sink.subject"),
            ),
            (
                "kind = \"nats\"\nurl = \"nats://a:4222\"\nsubject = \"a b\"",
                Some("relay.a.sink.subject"),
            ),
            (
                "kind = \"rabbitmq\"\nurl = \"http://a:5672\"",
                Some("relay.a.sink.url"),
            ),
            (
                "kind = \"nats\"\nurl = \"nats://a:4222\"\nsubject = \"s\"\ntime_limit = \"40s\"",
                Some("relay.a.lease"),
            ),
        ] {
            let result = read(&format!("{SOURCE}[relay.a.sink]\n{sink}\n"));
            match (result, problem) {
                (Ok(_), None) => {}
                (Err(error), Some(problem)) => {
                    assert!(error.contains(problem), "{sink}: {error}");
                    assert!(!error.contains("hunter2"), "{error}");
                }
                (result, _) => panic!("{sink}: {result:?}"),
            }
        }
    }

    #[test]
    fn a_queue_is_a_source_of_relays_of_the_api_only() {
        let sink = "[relay.a.sink]\nkind = \"webhook\"\nurl = \"https://a.example\"\n";
        let source = "[relay.a.source]\nkind = \"queue\"\nqueue = \"q\"\n";
        let error = read(&format!("{source}{sink}")).unwrap_err();
        let expected = "relay.a.source.kind = \"queue\" is for relays that are set through the API; \
            use kind = \"tidegate\"";
        assert_eq!(error, expected);
        let paused = read(&format!(
            "[relay.a]\npaused = true\nlease = \"90s\"\n{SOURCE}{sink}"
        ))
        .unwrap();
        assert!(paused.relay["a"].paused);
        assert_eq!(paused.relay["a"].lease.as_ms(), 90_000);
    }

    /// The kind of the source, its URL, and the namespace, queue and URL of the sink.
    #[test]
    fn a_sink_that_is_the_queue_of_its_source_is_refused() {
        let read_with = |kind: &str, from: &str, namespace: &str, queue: &str, to: &str| {
            let secret = if kind == "tidegate" {
                "api_key"
            } else {
                "token"
            };
            read(&format!(
                "[relay.a.source]\nkind = \"{kind}\"\nurl = \"{from}\"\nnamespace = \"n\"\nqueue = \"q\"\n\
                 {secret} = \"hunter2\"\n[relay.a.sink]\nkind = \"tidegate\"\nurl = \"{to}\"\n\
                 namespace = \"{namespace}\"\nqueue = \"{queue}\"\napi_key = \"hunter2\"\n"
            ))
        };
        for (kind, from, to) in [
            ("tidegate", "http://a:7777", "http://A:7777/"),
            ("tidegate", "https://a.example", "https://a.example.:443"),
            ("tidegate", "http://localhost", "http://127.0.0.1:80"),
            ("lmstfy", "http://[::1]:7777", "http://localhost:7777"),
            ("tidegate", "http://a/one", "http://a/one/"),
        ] {
            let error = read_with(kind, from, "n", "q", to).unwrap_err();
            assert!(error.starts_with("relay.a.sink.queue: "), "{to}: {error}");
        }
        for (namespace, queue, to) in [
            ("n", "other", "http://a:7777"),
            ("other", "q", "http://a:7777"),
            ("n", "q", "http://a:7778"),
            ("n", "q", "http://b:7777"),
            ("n", "q", "http://a:7777/two"),
        ] {
            let result = read_with("tidegate", "http://a:7777", namespace, queue, to);
            assert!(result.is_ok(), "{to}: {result:?}");
        }
    }

    #[test]
    fn bounds_are_those_of_the_api() {
        let of_relays = BOUNDS.iter().filter_map(|(key, bound)| {
            let key = key.strip_prefix("relay.*.")?;
            let ms = |duration: Duration| u64::try_from(duration.as_millis()).unwrap();
            let number = |number: i64| u64::try_from(number).unwrap();
            Some(match *bound {
                Bound::Number(least, most) => (key, number(least), number(most)),
                Bound::Duration(least, most) => (key, ms(least), ms(most)),
            })
        });
        assert!(of_relays.eq(RELAY_BOUNDS));
    }

    const KAFKA: &str = "kind = \"kafka\"\nurl = \"a:9092, b:9092\"\ntopic = \"t\"\nkey = \"attribute:customer\"\n\
        user = \"u\"\npassword = \"hunter2\"\nmechanism = \"scram-sha-256\"\ntls = true";

    #[test]
    fn kafka_needs_settings_that_can_work() {
        for (setting, wrong, problem) in [
            ("topic = \"t\"", "", "relay.a.sink.topic"),
            ("topic = \"t\"", "topic = \"a b\"", "relay.a.sink.topic"),
            ("a:9092", "a", "relay.a.sink.url"),
            ("a:9092", "kafka://a:9092", "relay.a.sink.url"),
            ("attribute:customer", "customer", "relay.a.sink.key"),
            ("user = \"u\"", "", "relay.a.sink.user"),
            ("scram-sha-256", "md5", "md5"),
            ("", "", ""),
        ] {
            let sink = KAFKA.replacen(setting, wrong, 1);
            let result = read(&format!("{SOURCE}[relay.a.sink]\n{sink}\n"));
            match result {
                Ok(_) => assert_eq!(problem, ""),
                Err(error) => {
                    assert!(!problem.is_empty() && error.contains(problem), "{error}");
                    assert!(!error.contains("hunter2"), "{error}");
                }
            }
        }
    }
}
