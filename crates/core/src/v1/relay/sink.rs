//! Where the jobs of a relay go.

use serde::{Deserialize, Serialize};

use super::address_guard::AddressGuard;
use super::defaults::default_time_limit;
use super::field_checks::{check_names, check_text, check_token};
use super::kafka::{KafkaConfig, KafkaMechanism};
use super::kinds::relay_end;
use super::secret::SecretText;
use super::text_list::TextList;
use super::url::{UrlParts, check_server_url, check_url};
use crate::limits::{AMQP_NAME_BYTES_MAX, RELAY_NETWORKS_MAX, RELAY_TEXT_BYTES_MAX};
use crate::v1::problem::InvalidRequest;
use crate::v1::values::{Base64Bytes, DurationMs};

/// The beginning of a secret that signs requests to webhooks.
const WEBHOOK_SECRET_PREFIX: &str = "whsec_";

const fn default_retain() -> DurationMs {
    DurationMs::saturating(600_000)
}

/// Where the jobs of a relay go. Texts that are not set are empty, so that a secret can come from the environment.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "lowercase")]
pub enum RelaySinkConfig {
    /// A URL that receives each job.
    Webhook(WebhookConfig),
    /// A subject of NATS.
    Nats(NatsConfig),
    /// An exchange of RabbitMQ.
    RabbitMq(RabbitMqConfig),
    /// A topic of Kafka.
    Kafka(KafkaConfig),
    /// A queue of a Tidegate.
    Tidegate(TidegateSinkConfig),
}

relay_end! {
    RelaySinkConfig, "Where the jobs of a relay go.";
    "webhook" Webhook(WebhookConfig.url) [secret] "secret";
    "nats" Nats(NatsConfig.url) [password token] "user and password, or token";
    "rabbitmq" RabbitMq(RabbitMqConfig.url) [password] "user and password";
    "kafka" Kafka(KafkaConfig.url) [password] "user and password";
    "tidegate" Tidegate(TidegateSinkConfig.url) [api_key] "api_key";
}

impl RelaySinkConfig {
    /// Whether the settings, apart from the URL, make the password readable on the way.
    pub(super) fn shows_password(&self) -> bool {
        let Self::Kafka(kafka) = self else {
            return false;
        };
        !kafka.tls && kafka.mechanism == KafkaMechanism::Plain
    }

    /// How long one call to the sink may take.
    pub const fn time_limit(&self) -> DurationMs {
        match self {
            Self::Webhook(config) => config.time_limit,
            Self::Nats(config) => config.time_limit,
            Self::RabbitMq(config) => config.time_limit,
            Self::Kafka(config) => config.time_limit,
            Self::Tidegate(config) => config.time_limit,
        }
    }
}

/// A URL that receives each job as a POST.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct WebhookConfig {
    /// The URL. Answers show all of it: a secret in its path is not hidden.
    #[serde(default)]
    #[cfg_attr(feature = "openapi", schema(required = true, max_length = 2048))]
    pub url: String,
    /// Secrets that sign requests, `whsec_` and base64, separated by spaces. Without one, requests are not signed.
    #[serde(default, skip_serializing_if = "SecretText::is_absent")]
    pub secret: SecretText,
    /// Whether the URL may be `http://`: `false` by default.
    #[serde(default)]
    pub allow_http: bool,
    /// Networks that are allowed besides public addresses, such as `10.0.0.0/8`: none by default.
    #[serde(default)]
    pub allow_networks: TextList,
    /// How long one request may take: 10 s by default, from 100 ms to 1 h.
    #[serde(default = "default_time_limit")]
    pub time_limit: DurationMs,
}

/// A subject of NATS that a JetStream stream stores.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct NatsConfig {
    /// The server, such as `nats://nats.example.com:4222`, or several with commas.
    #[serde(default)]
    #[cfg_attr(feature = "openapi", schema(required = true, max_length = 2048))]
    pub url: String,
    /// The subject.
    #[serde(default)]
    #[cfg_attr(feature = "openapi", schema(required = true, max_length = 2048))]
    pub subject: String,
    /// The user, if the server requires one.
    #[serde(default)]
    #[cfg_attr(feature = "openapi", schema(max_length = 2048))]
    pub user: String,
    /// The password.
    #[serde(default, skip_serializing_if = "SecretText::is_absent")]
    pub password: SecretText,
    /// A token instead of a user.
    #[serde(default, skip_serializing_if = "SecretText::is_absent")]
    pub token: SecretText,
    /// How long it may take until jobs are confirmed: 10 s by default, from 100 ms to 1 h.
    #[serde(default = "default_time_limit")]
    pub time_limit: DurationMs,
}

/// An exchange of RabbitMQ.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct RabbitMqConfig {
    /// The server, such as `amqp://rabbitmq.example.com:5672`, with the virtual host as its path.
    #[serde(default)]
    #[cfg_attr(feature = "openapi", schema(required = true, max_length = 2048))]
    pub url: String,
    /// The exchange; empty for the default one.
    #[serde(default)]
    #[cfg_attr(feature = "openapi", schema(max_length = 255))]
    pub exchange: String,
    /// The routing key: of the default exchange, the name of a queue.
    #[serde(default)]
    #[cfg_attr(feature = "openapi", schema(max_length = 255))]
    pub routing_key: String,
    /// The user. Without one, `guest` with its usual password.
    #[serde(default)]
    #[cfg_attr(feature = "openapi", schema(max_length = 2048))]
    pub user: String,
    /// The password.
    #[serde(default, skip_serializing_if = "SecretText::is_absent")]
    pub password: SecretText,
    /// How long it may take until jobs are confirmed: 10 s by default, from 100 ms to 1 h.
    #[serde(default = "default_time_limit")]
    pub time_limit: DurationMs,
}

/// A queue of a Tidegate.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct TidegateSinkConfig {
    /// The server, such as `https://tidegate.example.com`.
    #[serde(default)]
    #[cfg_attr(feature = "openapi", schema(required = true, max_length = 2048))]
    pub url: String,
    /// The namespace.
    #[serde(default)]
    #[cfg_attr(feature = "openapi", schema(required = true, max_length = 255))]
    pub namespace: String,
    /// The queue.
    #[serde(default)]
    #[cfg_attr(feature = "openapi", schema(required = true, max_length = 255))]
    pub queue: String,
    /// An API key with the scope `publish`.
    #[serde(default, skip_serializing_if = "SecretText::is_absent")]
    pub api_key: SecretText,
    /// How long a finished job stays, so that a repetition is recognised: 10 min by default, at most 7 d.
    #[serde(default = "default_retain")]
    pub retain: DurationMs,
    /// How long one publish may take: 10 s by default, from 100 ms to 1 h.
    #[serde(default = "default_time_limit")]
    pub time_limit: DurationMs,
}

impl WebhookConfig {
    fn check(&self) -> Result<(), InvalidRequest> {
        let schemes = ["https", "http"];
        check_url(&self.url, &schemes, "https://example.com/path")?;
        let Some(parts) = UrlParts::parse(&self.url) else {
            return Ok(());
        };
        let problem = |field, detail: String| Err(InvalidRequest::of_field(field, detail));
        if !self.allow_http && !parts.scheme.eq_ignore_ascii_case("https") {
            return problem(
                "url",
                "the url is http://: write https://, or set allow_http to true".to_owned(),
            );
        }
        let networks = self.allow_networks.texts();
        if networks.len() > RELAY_NETWORKS_MAX {
            let detail = format!("allow_networks must have at most {RELAY_NETWORKS_MAX} networks");
            return problem("allow_networks", detail);
        }
        let guard = match AddressGuard::new(&networks) {
            Ok(guard) => guard,
            Err(detail) => return problem("allow_networks", detail),
        };
        match parts.address().filter(|address| !guard.allows(*address)) {
            None => Ok(()),
            Some(address) => {
                let detail = format!(
                    "the address {address} is not public; if it is meant, add it to allow_networks"
                );
                problem("url", detail)
            }
        }
    }

    fn check_secrets(&self) -> Result<(), InvalidRequest> {
        let is_valid = |secret: &str| {
            let text = secret.strip_prefix(WEBHOOK_SECRET_PREFIX);
            let bytes = text.and_then(|text| Base64Bytes::try_from(text.to_owned()).ok());
            bytes.is_some_and(|bytes| !bytes.0.is_empty())
        };
        check_text("secret", self.secret.as_str(), RELAY_TEXT_BYTES_MAX)?;
        if !self.secret.as_str().split_whitespace().all(is_valid) {
            let detail = format!(
                "secret must be {WEBHOOK_SECRET_PREFIX} and base64, or several of these with spaces"
            );
            return Err(InvalidRequest::of_field("secret", detail));
        }
        Ok(())
    }
}

impl NatsConfig {
    fn check(&self) -> Result<(), InvalidRequest> {
        let example = "nats://example.com:4222";
        check_text("url", &self.url, RELAY_TEXT_BYTES_MAX)?;
        for url in self.url.split(',') {
            check_url(url.trim(), &["nats", "tls", ""], example)?;
        }
        check_text("subject", &self.subject, RELAY_TEXT_BYTES_MAX)?;
        let has_other =
            |subject: &str| subject.contains(char::is_whitespace) || subject.contains(['*', '>']);
        if self.subject.is_empty() || has_other(&self.subject) {
            let detail = "the subject is missing, or has spaces or wildcards";
            return Err(InvalidRequest::of_field("subject", detail));
        }
        check_text("user", &self.user, RELAY_TEXT_BYTES_MAX)
    }

    fn check_secrets(&self) -> Result<(), InvalidRequest> {
        check_text("password", self.password.as_str(), RELAY_TEXT_BYTES_MAX)?;
        check_text("token", self.token.as_str(), RELAY_TEXT_BYTES_MAX)?;
        if !self.token.is_empty() && !self.user.is_empty() {
            let detail = "user and token are both set; set one of them to \"\"";
            return Err(InvalidRequest::of_field("token", detail));
        }
        Ok(())
    }
}

impl RabbitMqConfig {
    fn check(&self) -> Result<(), InvalidRequest> {
        check_url(&self.url, &["amqp", "amqps"], "amqp://example.com:5672")?;
        check_text("exchange", &self.exchange, AMQP_NAME_BYTES_MAX)?;
        check_text("routing_key", &self.routing_key, AMQP_NAME_BYTES_MAX)?;
        if self.exchange.is_empty() && self.routing_key.is_empty() {
            let detail = "routing_key is missing: the default exchange needs the name of a queue";
            return Err(InvalidRequest::of_field("routing_key", detail));
        }
        check_text("user", &self.user, RELAY_TEXT_BYTES_MAX)
    }

    fn check_secrets(&self) -> Result<(), InvalidRequest> {
        check_text("password", self.password.as_str(), RELAY_TEXT_BYTES_MAX)
    }
}

impl TidegateSinkConfig {
    fn check(&self) -> Result<(), InvalidRequest> {
        check_server_url(&self.url, "https://example.com")?;
        check_names(&self.namespace, &self.queue)
    }

    fn check_secrets(&self) -> Result<(), InvalidRequest> {
        check_token("api_key", &self.api_key)
    }
}
