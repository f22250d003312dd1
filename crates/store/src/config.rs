//! Settings of a Redis deployment: how it is reached, and how jobs are stored in it.

use std::path::PathBuf;
use std::time::Duration;

use serde::{Deserialize, Deserializer};
use tidegate_core::SlotWidth;

/// The default url. If `sentinels` or `cluster` is set too, this url is ignored, so that a later layer of settings does
/// not have to unset it.
pub const DEFAULT_URL: &str = "redis://127.0.0.1:6379";

/// Settings of one [`crate::store::Store`]. An optional text that is empty counts as not set.
#[derive(Clone, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct StoreConfig {
    /// `redis://[user][:password@]host:port[/db]`, the same with `rediss` for TLS, or
    /// `redis+unix:///path`. Empty or [`DEFAULT_URL`] if `sentinels` or `cluster` is set.
    pub url: String,
    /// The pool that takes new jobs instead of this one, whose jobs are still consumed. The API uses it; the store does
    /// not.
    pub migrate_to: Option<String>,
    /// The sentinels that monitor the master, each as `host` or `host:port` (default port 26379). A list, or one text
    /// with commas.
    #[serde(deserialize_with = "list_or_text")]
    pub sentinels: Vec<String>,
    /// The urls of some nodes of a Redis Cluster; the others are discovered. It excludes `url` and `sentinels`. A list,
    /// or one text with commas.
    #[serde(deserialize_with = "list_or_text")]
    pub cluster: Vec<String>,
    /// The name of the master at the sentinels.
    #[serde(deserialize_with = "unless_empty")]
    pub master_name: Option<String>,
    /// The user at the sentinels; none = the default user.
    #[serde(deserialize_with = "unless_empty")]
    pub sentinel_username: Option<String>,
    #[serde(deserialize_with = "unless_empty")]
    pub sentinel_password: Option<String>,
    /// The user at Redis; none = the user of the url, or the default user. This key, `password` and `database` override
    /// the url.
    #[serde(deserialize_with = "unless_empty")]
    pub username: Option<String>,
    /// The password at Redis.
    #[serde(deserialize_with = "unless_empty")]
    pub password: Option<String>,
    /// The number of the database; a cluster has database 0 only.
    pub database: Option<u16>,
    /// Whether the master is reached over TLS, if there are sentinels. In a url, write `rediss` instead.
    pub tls: bool,
    /// Whether the sentinels are reached over TLS.
    pub tls_sentinels: bool,
    /// The certificate authorities (PEM) to trust; none = the authorities of the system.
    #[serde(deserialize_with = "unless_empty")]
    pub tls_ca_file: Option<PathBuf>,
    /// The client certificate (PEM), with its intermediate certificates.
    #[serde(deserialize_with = "unless_empty")]
    pub tls_certificate_file: Option<PathBuf>,
    /// The private key (PEM) of the client certificate.
    #[serde(deserialize_with = "unless_empty")]
    pub tls_key_file: Option<PathBuf>,
    /// Number of buckets; fixed when a deployment is first used.
    pub buckets: u32,
    /// Width of the slots of far timers, in ms; fixed when a deployment is first used.
    pub slot_ms: u32,
    /// Payloads of more bytes than this are stored outside of their record. The server's `hash-max-listpack-value`
    /// should be at least 34 bytes larger.
    pub inline_limit_bytes: usize,
    /// Payloads of at least this many bytes are compressed if that makes them smaller.
    pub compress_from_bytes: usize,
    /// Time limit of connecting.
    #[serde(with = "tidegate_core::duration")]
    pub connect_timeout: Duration,
    /// Time limit of a command, including reconnecting.
    #[serde(with = "tidegate_core::duration")]
    pub command_timeout: Duration,
    /// Whether to start with a server that may lose jobs.
    pub unsafe_server: UnsafeServer,
    /// Where the cold tier keeps payloads: `s3://`, `gs://`, `az://` or `file://`. Without it no payload is frozen.
    #[serde(deserialize_with = "unless_empty")]
    pub cold_url: Option<String>,
    /// Whether payloads are frozen; otherwise all come back.
    pub cold_freeze: bool,
    /// Payloads of jobs that are due later than this are frozen.
    #[serde(with = "tidegate_core::duration")]
    pub cold_after: Duration,
    /// Payloads of fewer bytes are not frozen.
    pub cold_payload_bytes_min: usize,
    /// The pause between two looks at far jobs. Pumps use it.
    #[serde(with = "tidegate_core::duration")]
    pub cold_interval: Duration,
    /// How long segments stay that no job refers to.
    #[serde(with = "tidegate_core::duration")]
    pub cold_keep: Duration,
}

/// Whether to start with a server without append-only file, or with a `maxmemory-policy` that evicts keys.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(try_from = "String")]
pub enum UnsafeServer {
    /// Do not start.
    #[default]
    Refuse,
    /// Log a warning and start: for development, and for jobs that may be lost.
    Warn,
}

impl TryFrom<String> for UnsafeServer {
    type Error = String;

    fn try_from(word: String) -> Result<Self, String> {
        match word.as_str() {
            "refuse" => Ok(Self::Refuse),
            "warn" => Ok(Self::Warn),
            _ => Err(format!(
                "unsafe_server must be \"refuse\" or \"warn\", not {word:?}"
            )),
        }
    }
}

/// A list, or one text, since an environment variable cannot contain a list.
#[derive(Deserialize)]
#[serde(
    untagged,
    expecting = "expected a list of texts, or one text with commas between them"
)]
enum ListOrText {
    List(Vec<String>),
    Text(String),
}

fn list_or_text<'de, D: Deserializer<'de>>(from: D) -> Result<Vec<String>, D::Error> {
    let given = match ListOrText::deserialize(from)? {
        ListOrText::List(given) => given,
        ListOrText::Text(text) => text.split(',').map(str::to_owned).collect(),
    };
    let trimmed = given.iter().map(|one| one.trim().to_owned());
    Ok(trimmed.filter(|one| !one.is_empty()).collect())
}

/// A text or a path.
fn unless_empty<'de, D: Deserializer<'de>, T: From<String>>(
    from: D,
) -> Result<Option<T>, D::Error> {
    let given = Option::<String>::deserialize(from)?;
    Ok(given.filter(|text| !text.is_empty()).map(T::from))
}

impl StoreConfig {
    /// The default settings, with this url.
    pub fn new(url: impl Into<String>) -> Self {
        Self {
            url: url.into(),
            ..Self::default()
        }
    }
}

impl Default for StoreConfig {
    fn default() -> Self {
        Self {
            url: String::new(),
            migrate_to: None,
            sentinels: Vec::new(),
            cluster: Vec::new(),
            master_name: None,
            sentinel_username: None,
            sentinel_password: None,
            username: None,
            password: None,
            database: None,
            tls: false,
            tls_sentinels: false,
            tls_ca_file: None,
            tls_certificate_file: None,
            tls_key_file: None,
            buckets: 256,
            slot_ms: SlotWidth::DEFAULT_MS,
            inline_limit_bytes: 1024,
            compress_from_bytes: 1024,
            connect_timeout: Duration::from_secs(1),
            command_timeout: Duration::from_secs(3),
            unsafe_server: UnsafeServer::Refuse,
            cold_url: None,
            cold_freeze: true,
            cold_after: Duration::from_secs(60 * 60),
            cold_payload_bytes_min: 64,
            cold_interval: Duration::from_secs(10 * 60),
            cold_keep: Duration::from_secs(60 * 60),
        }
    }
}

impl std::fmt::Debug for StoreConfig {
    /// Omits urls, users and passwords: a url may contain a password too.
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.debug_struct("StoreConfig")
            .field("migrate_to", &self.migrate_to)
            .field("sentinels", &self.sentinels)
            .field("master_name", &self.master_name)
            .field("database", &self.database)
            .field("tls", &self.tls)
            .field("tls_sentinels", &self.tls_sentinels)
            .field("tls_ca_file", &self.tls_ca_file)
            .field("tls_certificate_file", &self.tls_certificate_file)
            .field("tls_key_file", &self.tls_key_file)
            .field("buckets", &self.buckets)
            .field("slot_ms", &self.slot_ms)
            .field("inline_limit_bytes", &self.inline_limit_bytes)
            .field("compress_from_bytes", &self.compress_from_bytes)
            .field("connect_timeout", &self.connect_timeout)
            .field("command_timeout", &self.command_timeout)
            .field("unsafe_server", &self.unsafe_server)
            .field("cold_freeze", &self.cold_freeze)
            .field("cold_after", &self.cold_after)
            .field("cold_payload_bytes_min", &self.cold_payload_bytes_min)
            .field("cold_keep", &self.cold_keep)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(toml: &str) -> StoreConfig {
        toml::from_str(toml).unwrap()
    }

    #[test]
    fn sentinels_are_a_list_or_a_text_with_commas() {
        for toml in ["sentinels = [\"a:1\", \" b \"]", "sentinels = \"a:1, b,\""] {
            assert_eq!(read(toml).sentinels, ["a:1", "b"], "{toml}");
        }
        assert!(read("sentinels = \"\"").sentinels.is_empty());
        let wrong = toml::from_str::<StoreConfig>("sentinels = 7").unwrap_err();
        assert!(wrong.to_string().contains("list of texts"), "{wrong}");
    }

    #[test]
    fn an_empty_text_is_not_set() {
        let config = read("username = \"\"\npassword = \"x\"\ntls_ca_file = \"\"");
        assert_eq!(config.username, None);
        assert_eq!(config.password.as_deref(), Some("x"));
        assert_eq!(config.tls_ca_file, None);
    }

    #[test]
    fn debug_output_contains_no_secret() {
        let mut config = StoreConfig::new("redis://sesame@host");
        config.username = Some("sesame".to_owned());
        config.password = Some("sesame".to_owned());
        config.sentinel_username = Some("sesame".to_owned());
        config.sentinel_password = Some("sesame".to_owned());
        let shown = format!("{config:?}");
        assert!(!shown.contains("sesame"), "{shown}");
    }
}
