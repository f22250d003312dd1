//! Where the jobs of a relay come from.

use serde::{Deserialize, Serialize};

use super::field_checks::{check_names, check_queue, check_token};
use super::kinds::relay_end;
use super::secret::SecretText;
use super::url::check_server_url;
use crate::v1::problem::InvalidRequest;

/// Where the jobs of a relay come from. Texts that are not set are empty, so that a secret can come from the
/// environment.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "lowercase")]
pub enum RelaySourceConfig {
    /// A queue of the namespace of the relay.
    Queue(QueueSourceConfig),
    /// A queue of a Tidegate.
    Tidegate(TidegateSourceConfig),
    /// A queue of a server of the lmstfy wire.
    Lmstfy(LmstfySourceConfig),
}

relay_end! {
    RelaySourceConfig, "Where the jobs of a relay come from.";
    "queue" Queue(QueueSourceConfig) [] "";
    "tidegate" Tidegate(TidegateSourceConfig.url) [api_key] "api_key";
    "lmstfy" Lmstfy(LmstfySourceConfig.url) [token] "token";
}

/// A queue of the namespace of the relay, for relays that are set through the API.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct QueueSourceConfig {
    /// The queue.
    #[serde(default)]
    #[cfg_attr(feature = "openapi", schema(required = true, max_length = 255))]
    pub queue: String,
}

/// A queue of a Tidegate.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct TidegateSourceConfig {
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
    /// An API key with the scope `consume`.
    #[serde(default, skip_serializing_if = "SecretText::is_absent")]
    pub api_key: SecretText,
}

/// A queue of a server of the lmstfy wire: lmstfy itself, or a Tidegate.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct LmstfySourceConfig {
    /// The server, such as `http://lmstfy.example.com:7777`.
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
    /// The access token.
    #[serde(default, skip_serializing_if = "SecretText::is_absent")]
    pub token: SecretText,
}

impl QueueSourceConfig {
    fn check(&self) -> Result<(), InvalidRequest> {
        check_queue(&self.queue)
    }

    #[allow(clippy::unused_self, reason = "as in the other kinds")]
    const fn check_secrets(&self) -> Result<(), InvalidRequest> {
        Ok(())
    }
}

impl TidegateSourceConfig {
    fn check(&self) -> Result<(), InvalidRequest> {
        check_server_url(&self.url, "https://example.com")?;
        check_names(&self.namespace, &self.queue)
    }

    fn check_secrets(&self) -> Result<(), InvalidRequest> {
        check_token("api_key", &self.api_key)
    }
}

impl LmstfySourceConfig {
    fn check(&self) -> Result<(), InvalidRequest> {
        check_server_url(&self.url, "http://example.com:7777")?;
        check_names(&self.namespace, &self.queue)
    }

    fn check_secrets(&self) -> Result<(), InvalidRequest> {
        check_token("token", &self.token)
    }
}
