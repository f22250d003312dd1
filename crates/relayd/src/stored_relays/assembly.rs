//! Makes relays from the stored settings of the API.

use ipnet::IpNet;
use serde_json::Value;
use tidegate::api::relay::{
    RelayConfig, RelaySinkConfig, RelaySourceConfig, SecretText, TidegateSourceConfig,
};

use super::allowed_hosts::AllowedHosts;
use super::name::namespace_of;
use crate::assembly::build_relay;
use crate::config::StoredRelaysConfig;
use crate::relay::Relay;

/// Makes relays from the stored settings of the API, with the limits that the settings of this daemon set to them.
pub(super) struct StoredRelayBuilder {
    url: String,
    api_key: SecretText,
    hosts: AllowedHosts,
    networks: Vec<IpNet>,
}

impl StoredRelayBuilder {
    pub(super) fn new(config: &StoredRelaysConfig) -> Result<Self, String> {
        for (name, is_missing) in [
            ("api.url", config.url.is_empty()),
            ("api.api_key", config.api_key.is_empty()),
        ] {
            if is_missing {
                return Err(format!("{name} is missing"));
            }
        }
        let networks = config.allow_networks.texts().into_iter().map(parse_network);
        Ok(Self {
            url: config.url.clone(),
            api_key: config.api_key.clone(),
            hosts: AllowedHosts::new(&config.allow_hosts.texts()),
            networks: networks
                .collect::<Result<_, _>>()
                .map_err(|error| format!("api.allow_networks: {error}"))?,
        })
    }

    /// Makes a relay. `name` is its namespace and name.
    ///
    /// # Errors
    /// It cannot run as it is defined, or these settings do not allow it.
    pub(super) fn build(&self, name: &str, definition: &Value) -> Result<Relay, String> {
        let config: Result<RelayConfig, _> = serde_json::from_value(definition.clone());
        // Written by a later version, perhaps. The error has no value: it may be a secret.
        let mut config = config.map_err(|_| "it is damaged, or of a later version")?;
        let namespace = namespace_of(name).unwrap_or_default();
        match &config.source {
            RelaySourceConfig::Queue(source) => {
                config.source = RelaySourceConfig::Tidegate(TidegateSourceConfig {
                    url: self.url.clone(),
                    namespace: namespace.to_owned(),
                    queue: source.queue.clone(),
                    api_key: self.api_key.clone(),
                });
            }
            other => self
                .hosts
                .check(other.url())
                .map_err(|error| format!("source.url: {error}"))?,
        }
        match &config.sink {
            RelaySinkConfig::Webhook(webhook) => {
                self.check_networks(&webhook.allow_networks.texts())?
            }
            other => self
                .hosts
                .check(other.url())
                .map_err(|error| format!("sink.url: {error}"))?,
        }
        build_relay(name, &config)
    }

    /// Checks that each network is a part of a network that the settings allow.
    fn check_networks(&self, networks: &[&str]) -> Result<(), String> {
        for text in networks {
            let network = parse_network(text)?;
            if !self
                .networks
                .iter()
                .any(|allowed| allowed.contains(&network))
            {
                return Err(format!(
                    "sink.allow_networks: {text} is not allowed: it must be in api.allow_networks in the settings of tidegate-relayd"
                ));
            }
        }
        Ok(())
    }
}

fn parse_network(text: &str) -> Result<IpNet, String> {
    let network = text
        .parse()
        .or_else(|_| text.parse().map(|address: std::net::IpAddr| address.into()));
    network.map_err(|_| format!("{text:?} is not a network: write it like \"10.0.0.0/8\""))
}
