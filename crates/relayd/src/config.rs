//! Settings of the daemon. `config/relayd.toml` contains the defaults and describes every key.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde::Deserialize;
use tidegate::api::relay::{RelayConfig, SecretText, TextList};
use tidegate_daemon::traces::TracesConfig;
use tidegate_daemon::{LogConfig, Settings};

use crate::assembly::check_relay;

/// The built-in defaults of all keys, with comments.
pub const DEFAULTS: &str = include_str!("../../../config/relayd.toml");

/// All settings of `tidegate-relayd`.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RelaydConfig {
    /// Address of the admin port.
    pub admin_listen: SocketAddr,
    /// How long a stop waits for deliveries in flight.
    #[serde(with = "tidegate_core::duration")]
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
    pub password: SecretText,
}

impl Settings for RelaydConfig {
    const PROGRAM: &'static str = "tidegate-relayd";
    const DEFAULTS: &'static str = DEFAULTS;
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
    use tidegate_daemon::{Bound, LoadedConfig, Schema, Sources, load};

    use super::*;

    #[test]
    fn every_number_and_duration_has_bounds() {
        assert_eq!(Schema::new(DEFAULTS).unwrap().gaps(), [""; 0]);
    }

    /// The settings of a file with this text: read and checked, or the error.
    fn read(text: &str) -> Result<RelaydConfig, String> {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), text).unwrap();
        let sources = Sources {
            schema: &Schema::new(DEFAULTS).unwrap(),
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
        let schema = Schema::new(DEFAULTS).unwrap();
        for (key, least, most) in RELAY_BOUNDS {
            let ms = Duration::from_millis;
            let number = |number: u64| number.try_into().unwrap();
            let key = format!("relay.NAME.{key}");
            let bound = schema.bound(&key).unwrap();
            let expected = match bound {
                Bound::Number(..) => Bound::Number(number(least), number(most)),
                Bound::Duration(..) => Bound::Duration(ms(least), ms(most)),
            };
            assert_eq!(bound, expected, "{key}");
        }
    }

    /// The file has these defaults as comments, since a relay has no defaults of its own there.
    #[test]
    fn a_relay_has_the_defaults_that_the_file_says() {
        let rows = DEFAULTS.split_once("#[relay.NAME]").unwrap().1;
        let rows = rows.split_once("#[relay.NAME.source]").unwrap().0;
        let rows = rows.lines().filter_map(|line| line.strip_prefix('#'));
        let rows: Vec<&str> = rows.filter(|row| !row.starts_with(' ')).collect();
        assert!(rows.len() > 6, "{rows:?}");
        let set = rows.join("\n");
        let rest =
            format!("{SOURCE}[relay.a.sink]\nkind = \"webhook\"\nurl = \"https://a.example\"\n");
        let plain = read(&rest).unwrap();
        let with_rows = read(&format!("[relay.a]\n{set}\n{rest}")).unwrap();
        assert_eq!(with_rows.relay, plain.relay);
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
