//! Settings of the daemon. `config/api.toml` is the commented default and the base layer.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::time::Duration;

use serde::Deserialize;
use tidegate_service::{ListenLimits, LogConfig};
use tidegate_store::StoreConfig;

/// The built-in defaults: every key, with what it means.
pub const DEFAULTS: &str = include_str!("../../../config/api.toml");

/// The pool that must be there: requests without a pool go to it, and it keeps the tokens.
pub const DEFAULT_POOL: &str = "default";

/// All settings of `tidegate-api`.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Config {
    /// Where jobs are published and consumed.
    pub listen: SocketAddr,
    /// Where tokens are made and metrics are served. It asks for no credentials.
    pub admin_listen: SocketAddr,
    /// How long to wait for Redis at the start.
    #[serde(with = "humantime_serde")]
    pub connect_patience: Duration,
    /// How long requests may take to finish after a stop was asked for.
    #[serde(with = "humantime_serde")]
    pub drain_timeout: Duration,
    /// How much is logged, and how.
    pub log: LogConfig,
    /// What the public listener puts up with.
    pub connections: ListenLimits,
    /// What the bodies of requests may be.
    pub bodies: BodyLimits,
    /// How waiting consumers are woken.
    pub waiters: WaiterConfig,
    /// What applies where a request does not say.
    pub job: JobDefaults,
    /// The Redis deployments, by name.
    pub pool: BTreeMap<String, StoreConfig>,
}

/// What the bodies of requests may be.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct BodyLimits {
    /// The longest wait for each MiB of a body.
    #[serde(with = "humantime_serde")]
    pub timeout: Duration,
    /// The longest body of a bulk publish, in bytes.
    pub bulk_bytes_max: usize,
}

/// How waiting consumers are woken.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct WaiterConfig {
    /// The longest time between two looks at a queue that somebody waits for, should every message
    /// from Redis be lost.
    #[serde(with = "humantime_serde")]
    pub poll_interval: Duration,
}

/// What applies where a request does not say.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct JobDefaults {
    /// From publishing to expiry; 0 = never.
    pub ttl_seconds: u32,
    /// From publishing to being consumable.
    pub delay_seconds: u32,
    /// Deliveries.
    pub tries: u16,
    /// The length of a lease.
    pub ttr_seconds: u32,
    /// The longest wait for a job; 0 = do not wait.
    pub timeout_seconds: u32,
}

#[cfg(test)]
impl JobDefaults {
    /// What `config/api.toml` says.
    pub(crate) const SHIPPED: Self = Self {
        ttl_seconds: 86400,
        delay_seconds: 0,
        tries: 1,
        ttr_seconds: 120,
        timeout_seconds: 0,
    };
}

impl Config {
    /// Checks what types cannot.
    ///
    /// # Errors
    /// Says which setting is wrong, and what it should be.
    pub fn check(&self) -> Result<(), String> {
        if !self.pool.contains_key(DEFAULT_POOL) {
            return Err(format!("there must be a table [pool.{DEFAULT_POOL}]"));
        }
        if let Some(name) = self
            .pool
            .keys()
            .find(|name| name.is_empty() || name.contains(':'))
        {
            return Err(format!(
                "pool {name:?}: a name must not be empty or contain a colon"
            ));
        }
        if self.waiters.poll_interval < Duration::from_millis(100) {
            return Err("waiters.poll_interval must be at least 100ms".to_owned());
        }
        if self.job.tries == 0 {
            return Err("job.tries must be at least 1".to_owned());
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use tidegate_service::{Sources, load};
    use tidegate_store::UnsafeServer;

    use super::*;

    fn with_flags(flags: &[(&str, String)]) -> Config {
        let sources = Sources {
            defaults: DEFAULTS,
            file: None,
            env_prefix: "TIDEGATE",
            environment: &[],
            flags,
        };
        load(&sources).unwrap()
    }

    #[test]
    fn the_default_file_has_every_key() {
        let config = with_flags(&[]);
        assert_eq!(config.check(), Ok(()));
        assert_eq!(config.listen.to_string(), "127.0.0.1:7777");
        assert_eq!(config.admin_listen.to_string(), "127.0.0.1:7778");
        let redis = &config.pool[DEFAULT_POOL];
        assert_eq!(redis.url, "redis://127.0.0.1:6379");
        assert_eq!(redis.unsafe_server, UnsafeServer::Refuse);
        assert_eq!(config.job, JobDefaults::SHIPPED);
    }

    #[test]
    fn every_key_of_the_default_file_has_a_comment() {
        let mut comment = false;
        for line in DEFAULTS.lines() {
            if line.contains('=') && !line.starts_with('#') {
                assert!(comment, "no comment above: {line}");
            }
            comment = line.starts_with('#') || (comment && line.contains('=') && !line.is_empty());
        }
    }

    #[test]
    fn a_default_pool_is_a_must() {
        let mut config = with_flags(&[]);
        config.pool.clear();
        assert!(config.check().unwrap_err().contains("[pool.default]"));
    }
}
