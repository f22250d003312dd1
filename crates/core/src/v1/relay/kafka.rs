//! A topic of Kafka.

use serde::{Deserialize, Serialize};

use super::defaults::default_time_limit;
use super::field_checks::check_text;
use super::secret::SecretText;
use super::url::check_url;
use crate::limits::{KAFKA_TOPIC_BYTES_MAX, RELAY_TEXT_BYTES_MAX};
use crate::v1::problem::InvalidRequest;
use crate::v1::values::DurationMs;

/// The beginning of the setting `key` for a key from an attribute.
const ATTRIBUTE_KEY: &str = "attribute:";

/// A topic of Kafka, for builds of `tidegate-relayd` with the feature `kafka`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct KafkaConfig {
    /// The broker, such as `kafka.example.com:9092`, or several with commas.
    #[serde(default)]
    #[cfg_attr(feature = "openapi", schema(required = true, max_length = 2048))]
    pub url: String,
    /// The topic.
    #[serde(default)]
    #[cfg_attr(feature = "openapi", schema(required = true, max_length = 249))]
    pub topic: String,
    /// The key of a message: empty for none, `id` for the id of the job, or `attribute:NAME`.
    #[serde(default)]
    #[cfg_attr(feature = "openapi", schema(max_length = 2048))]
    pub key: String,
    /// The user, if the brokers require one.
    #[serde(default)]
    #[cfg_attr(feature = "openapi", schema(max_length = 2048))]
    pub user: String,
    /// The password.
    #[serde(default, skip_serializing_if = "SecretText::is_absent")]
    pub password: SecretText,
    /// How the user proves the password: `plain` by default.
    #[serde(default)]
    pub mechanism: KafkaMechanism,
    /// Whether connections use TLS: `false` by default.
    #[serde(default)]
    pub tls: bool,
    /// How long it may take until jobs are confirmed: 10 s by default, from 100 ms to 1 h.
    #[serde(default = "default_time_limit")]
    pub time_limit: DurationMs,
}

/// A mechanism of SASL.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub enum KafkaMechanism {
    /// The password is sent.
    #[default]
    #[serde(rename = "plain")]
    Plain,
    /// A proof is sent.
    #[serde(rename = "scram-sha-256")]
    ScramSha256,
    /// A longer proof is sent.
    #[serde(rename = "scram-sha-512")]
    ScramSha512,
}

impl KafkaConfig {
    /// The attribute that gives messages their key, if any.
    pub fn key_attribute(&self) -> Option<&str> {
        self.key.strip_prefix(ATTRIBUTE_KEY)
    }

    pub(super) fn check(&self) -> Result<(), InvalidRequest> {
        let example = "kafka.example.com:9092";
        check_text("url", &self.url, RELAY_TEXT_BYTES_MAX)?;
        for broker in self.url.split(',').map(str::trim) {
            check_url(broker, &[""], example)?;
            if broker.contains('@') {
                let detail = "the url has a user; use user and password";
                return Err(InvalidRequest::of_field("url", detail));
            }
            let has_port = broker.ends_with(|last: char| last.is_ascii_digit());
            if !has_port || !broker.contains(':') || broker.contains(['/', '?', '#']) {
                let detail = format!("the url must be like {example}");
                return Err(InvalidRequest::of_field("url", detail));
            }
        }
        let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"._-".contains(&byte);
        let length = 1..=KAFKA_TOPIC_BYTES_MAX;
        if !length.contains(&self.topic.len()) || !self.topic.bytes().all(is_plain) {
            let detail = format!(
                "the topic is missing, or has other characters than letters, digits, ., _ and -, or more than \
                 {KAFKA_TOPIC_BYTES_MAX}"
            );
            return Err(InvalidRequest::of_field("topic", detail));
        }
        check_text("key", &self.key, RELAY_TEXT_BYTES_MAX)?;
        let has_attribute = self.key_attribute().is_some_and(|name| !name.is_empty());
        if !has_attribute && !["", "id"].contains(&self.key.as_str()) {
            let detail = "the key must be empty, id, or attribute:NAME";
            return Err(InvalidRequest::of_field("key", detail));
        }
        check_text("user", &self.user, RELAY_TEXT_BYTES_MAX)
    }

    pub(super) fn check_secrets(&self) -> Result<(), InvalidRequest> {
        check_text("password", self.password.as_str(), RELAY_TEXT_BYTES_MAX)?;
        if self.user.is_empty() && !self.password.is_empty() {
            let detail = "user is missing, and password is set";
            return Err(InvalidRequest::of_field("user", detail));
        }
        Ok(())
    }
}
