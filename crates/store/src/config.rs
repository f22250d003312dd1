//! How to reach a Redis deployment and how to lay jobs out in it.

use std::path::PathBuf;
use std::time::Duration;

use serde::{Deserialize, Deserializer};
use tidegate_core::SlotWidth;

/// The server that is used where none of `url`, `sentinels` and `cluster` names one. With this url a pool
/// may have sentinels or a cluster beside it, and they count: so a later layer of settings need not take the
/// url back.
pub const DEFAULT_URL: &str = "redis://127.0.0.1:6379";

/// Settings of one [`crate::Store`]. An optional text that is empty counts as not set.
#[derive(Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct StoreConfig {
    /// `redis://[user][:password@]host:port[/db]`, the same with `rediss` for TLS, or
    /// `redis+unix:///path`. Empty, or [`DEFAULT_URL`], where there are `sentinels` or a `cluster`.
    #[serde(default)]
    pub url: String,
    /// The pool that takes new jobs in the place of this one, whose jobs are still consumed. For whoever
    /// publishes and consumes; the store itself does nothing with it.
    #[serde(default)]
    pub migrate_to: Option<String>,
    /// The sentinels that know the master: `host` or `host:port` each. A list, or one text with commas.
    #[serde(default, deserialize_with = "list_or_text")]
    pub sentinels: Vec<String>,
    /// Some nodes of a Redis Cluster, by their urls; the others are found. Where it is set, `url` and
    /// `sentinels` are not. A list, or one text with commas.
    #[serde(default, deserialize_with = "list_or_text")]
    pub cluster: Vec<String>,
    /// What the sentinels call the master.
    #[serde(default, deserialize_with = "unless_empty")]
    pub master_name: Option<String>,
    /// The user at the sentinels; none = their default user.
    #[serde(default, deserialize_with = "unless_empty")]
    pub sentinel_username: Option<String>,
    /// The password at the sentinels.
    #[serde(default, deserialize_with = "unless_empty")]
    pub sentinel_password: Option<String>,
    /// The user at Redis. It wins over that of the url, as do the next two; none = the default user.
    #[serde(default, deserialize_with = "unless_empty")]
    pub username: Option<String>,
    /// The password at Redis.
    #[serde(default, deserialize_with = "unless_empty")]
    pub password: Option<String>,
    /// The number of the database; 0 only on a cluster.
    #[serde(default)]
    pub database: Option<u16>,
    /// Whether the master that the sentinels name is reached over TLS. A url says `rediss` instead.
    #[serde(default)]
    pub tls: bool,
    /// Whether the sentinels are reached over TLS.
    #[serde(default)]
    pub tls_sentinels: bool,
    /// The authorities (PEM) that certificates are checked with; none = those of the system.
    #[serde(default, deserialize_with = "path_unless_empty")]
    pub tls_ca_file: Option<PathBuf>,
    /// The certificate (PEM) that this client shows, with those that lead to its authority.
    #[serde(default, deserialize_with = "path_unless_empty")]
    pub tls_certificate_file: Option<PathBuf>,
    /// The private key (PEM) of that certificate.
    #[serde(default, deserialize_with = "path_unless_empty")]
    pub tls_key_file: Option<PathBuf>,
    /// Number of buckets; fixed when a deployment is first used. 1 to 65536.
    #[serde(default = "buckets")]
    pub buckets: u32,
    /// Width of the slots of far timers, in ms; fixed when a deployment is first used. 100 to 86400000.
    #[serde(default = "slot_ms")]
    pub slot_ms: u32,
    /// Payloads above this many bytes are kept outside of their record. The server's
    /// `hash-max-listpack-value` should be at least 34 bytes larger.
    #[serde(default = "inline_limit_bytes")]
    pub inline_limit_bytes: usize,
    /// Payloads of at least this many bytes are compressed when that makes them smaller.
    #[serde(default = "compress_from_bytes")]
    pub compress_from_bytes: usize,
    /// The longest wait for a connection.
    #[serde(default = "connect_timeout", with = "humantime_serde")]
    pub connect_timeout: Duration,
    /// The longest wait for an answer, reconnecting included.
    #[serde(default = "command_timeout", with = "humantime_serde")]
    pub command_timeout: Duration,
    /// What to do about a server that may lose jobs.
    #[serde(default)]
    pub unsafe_server: UnsafeServer,
}

/// What to do about a server without append-only file or with an evicting memory policy.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(try_from = "String")]
pub enum UnsafeServer {
    /// Do not start.
    #[default]
    Refuse,
    /// Log a warning and go on: for development, and for jobs that may be lost.
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

/// A list, or one text: an environment variable can carry no list.
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

fn unless_empty<'de, D: Deserializer<'de>>(from: D) -> Result<Option<String>, D::Error> {
    let given = Option::<String>::deserialize(from)?;
    Ok(given.filter(|text| !text.is_empty()))
}

fn path_unless_empty<'de, D: Deserializer<'de>>(from: D) -> Result<Option<PathBuf>, D::Error> {
    Ok(unless_empty(from)?.map(PathBuf::from))
}

const fn buckets() -> u32 {
    256
}

const fn slot_ms() -> u32 {
    SlotWidth::DEFAULT_MS
}

const fn inline_limit_bytes() -> usize {
    1024
}

const fn compress_from_bytes() -> usize {
    1024
}

const fn connect_timeout() -> Duration {
    Duration::from_secs(1)
}

const fn command_timeout() -> Duration {
    Duration::from_secs(3)
}

impl StoreConfig {
    /// The default settings for the server at `url`.
    #[must_use]
    pub fn new(url: impl Into<String>) -> Self {
        Self {
            url: url.into(),
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
            buckets: buckets(),
            slot_ms: slot_ms(),
            inline_limit_bytes: inline_limit_bytes(),
            compress_from_bytes: compress_from_bytes(),
            connect_timeout: connect_timeout(),
            command_timeout: command_timeout(),
            unsafe_server: UnsafeServer::Refuse,
        }
    }
}

impl std::fmt::Debug for StoreConfig {
    /// Leaves out the urls, which may carry a password, and what names or proves a user.
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
    fn no_secret_is_shown() {
        let mut config = StoreConfig::new("redis://sesame@host");
        config.username = Some("sesame".to_owned());
        config.password = Some("sesame".to_owned());
        config.sentinel_username = Some("sesame".to_owned());
        config.sentinel_password = Some("sesame".to_owned());
        let shown = format!("{config:?}");
        assert!(!shown.contains("sesame"), "{shown}");
    }
}
