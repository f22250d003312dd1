//! The settings of a topic and of the way to it.

use std::sync::Arc;

use hyper_rustls::ConfigBuilderExt;
use rskafka::BackoffConfig;
use rskafka::client::{ClientBuilder, Credentials, SaslConfig};
use rustls::ClientConfig;
use tidegate::api::relay::{KafkaConfig, KafkaMechanism};

const CLIENT_ID: &str = "tidegate-relayd";

/// A topic, and how to connect to its brokers.
pub(super) struct KafkaTarget {
    brokers: Vec<String>,
    pub(super) topic: String,
    sasl: Option<SaslConfig>,
    tls: Option<Arc<ClientConfig>>,
}

impl KafkaTarget {
    /// Makes the target. Nothing is sent. Callers have checked the settings.
    ///
    /// # Errors
    /// The certificate authorities of the system cannot be read.
    pub(super) fn new(config: &KafkaConfig) -> Result<Self, String> {
        let brokers = config.url.split(',');
        Ok(Self {
            brokers: brokers.map(|broker| broker.trim().to_owned()).collect(),
            topic: config.topic.clone(),
            sasl: sasl(config),
            tls: config.tls.then(tls).transpose()?,
        })
    }

    /// A client that repeats nothing: it returns the first error.
    pub(super) fn builder(&self) -> ClientBuilder {
        let once = BackoffConfig {
            deadline: Some(std::time::Duration::ZERO),
            ..BackoffConfig::default()
        };
        let mut builder = ClientBuilder::new(self.brokers.clone())
            .client_id(CLIENT_ID)
            .backoff_config(once);
        if let Some(sasl) = &self.sasl {
            builder = builder.sasl_config(sasl.clone());
        }
        match &self.tls {
            Some(tls) => builder.tls_config(Arc::clone(tls)),
            None => builder,
        }
    }
}

fn sasl(config: &KafkaConfig) -> Option<SaslConfig> {
    if config.user.is_empty() {
        return None;
    }
    let password = config.password.as_str().to_owned();
    let credentials = Credentials::new(config.user.clone(), password);
    Some(match config.mechanism {
        KafkaMechanism::Plain => SaslConfig::Plain(credentials),
        KafkaMechanism::ScramSha256 => SaslConfig::ScramSha256(credentials),
        KafkaMechanism::ScramSha512 => SaslConfig::ScramSha512(credentials),
    })
}

/// Trusts the certificate authorities of the system.
fn tls() -> Result<Arc<ClientConfig>, String> {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let builder =
        ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions();
    let builder = builder.map_err(|error| format!("tls: {error}"))?;
    let builder = builder.with_native_roots().map_err(|error| {
        format!("tls: failed to read the certificate authorities of this system: {error}; install the package ca-certificates")
    })?;
    Ok(Arc::new(builder.with_no_client_auth()))
}
