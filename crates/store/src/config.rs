//! How to reach a Redis deployment and how to lay jobs out in it.

use std::time::Duration;

use serde::Deserialize;

/// Settings of one [`crate::Store`].
#[derive(Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct StoreConfig {
    /// `redis://[user][:password@]host:port[/db]` or `redis+unix:///path`.
    pub url: String,
    /// The pool that takes new jobs in the place of this one, whose jobs are still consumed. For whoever
    /// publishes and consumes; the store itself does nothing with it.
    #[serde(default)]
    pub migrate_to: Option<String>,
    /// Number of buckets; fixed when a deployment is first used. 1 to 65536.
    #[serde(default = "buckets")]
    pub buckets: u32,
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

const fn buckets() -> u32 {
    256
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
            buckets: buckets(),
            inline_limit_bytes: inline_limit_bytes(),
            compress_from_bytes: compress_from_bytes(),
            connect_timeout: connect_timeout(),
            command_timeout: command_timeout(),
            unsafe_server: UnsafeServer::Refuse,
        }
    }
}

impl std::fmt::Debug for StoreConfig {
    /// Leaves the URL out: it may carry a password.
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.debug_struct("StoreConfig")
            .field("migrate_to", &self.migrate_to)
            .field("buckets", &self.buckets)
            .field("inline_limit_bytes", &self.inline_limit_bytes)
            .field("compress_from_bytes", &self.compress_from_bytes)
            .field("connect_timeout", &self.connect_timeout)
            .field("command_timeout", &self.command_timeout)
            .field("unsafe_server", &self.unsafe_server)
            .finish_non_exhaustive()
    }
}
