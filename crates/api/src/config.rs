//! The settings of the daemon. `config/api.toml` has every key with its default; it is the lowest layer.

mod durability;
mod tables;
mod youzan;

use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde::Deserialize;
use tidegate_core::NamespaceLimits;
use tidegate_core::limits::POOL_BYTES_MAX;
use tidegate_daemon::metrics::MetricsConfig;
use tidegate_daemon::traces::TracesConfig;
use tidegate_daemon::{ListenLimits, LogConfig, Settings};
use tidegate_store::StoreConfig;

pub use durability::DurabilityConfig;
pub use tables::{
    AccountRole, DrainedServerConfig, JobDefaults, Password, RequestLimits, WaiterConfig,
};
pub use tidegate_engine::DEFAULT_POOL;
pub use youzan::YouzanConfig;

/// The built-in defaults: every key, with a comment.
pub const DEFAULTS: &str = include_str!("../../../config/api.toml");

/// The built-in defaults as settings, for tests and the fuzzer.
#[cfg(any(test, feature = "fuzz"))]
pub(crate) static SHIPPED: std::sync::LazyLock<ApiConfig> = std::sync::LazyLock::new(|| {
    let table = tidegate_daemon::parse_toml(DEFAULTS).expect("the defaults are TOML");
    table.try_into().expect("the defaults have every key")
});

/// All settings of `tidegate-api`.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ApiConfig {
    /// The address of the public listener, for publishing and consuming.
    pub listen: SocketAddr,
    /// The address of the admin listener.
    pub admin_listen: SocketAddr,
    /// Whether to start although other machines can reach the admin port and there are no accounts.
    pub allow_open_admin: bool,
    /// Whether requests are accepted with any token or none. For development only.
    pub skip_token_checks: bool,
    /// How long to wait for Redis at the start before giving up.
    #[serde(with = "tidegate_core::duration")]
    pub connect_patience: Duration,
    /// How long requests may take to finish once the listener has closed after a signal.
    #[serde(with = "tidegate_core::duration")]
    pub drain_timeout: Duration,
    /// How long to continue serving after a signal, while `/readyz` answers 503.
    #[serde(with = "tidegate_core::duration")]
    pub drain_delay: Duration,
    /// The file for the process id; empty = none.
    pub pid_file: PathBuf,
    /// The number of threads that serve requests.
    pub threads: u16,
    /// Level, format and destination of log lines.
    pub log: LogConfig,
    /// Spans, and where they are sent.
    pub traces: TracesConfig,
    /// The limits of the public listener.
    pub connections: ListenLimits,
    /// The limits on size and duration of requests.
    pub requests: RequestLimits,
    /// How consumers wait for jobs.
    pub waiters: WaiterConfig,
    /// The limits on the cost of metrics.
    pub metrics: MetricsConfig,
    pub namespace_limits: NamespaceLimits,
    /// The defaults of request parameters.
    pub job: JobDefaults,
    /// The durability that publishes wait for.
    pub durability: DurabilityConfig,
    /// The accounts of the admin port: passwords by name. Empty = no credentials are required.
    pub accounts: BTreeMap<String, Password>,
    /// The roles of accounts, by name; an account without an entry may do everything.
    pub account_roles: BTreeMap<String, AccountRole>,
    /// Whether tokens are stored as hashes instead of plain text.
    pub hash_tokens: bool,
    /// The Redis that stores tokens, API keys and limits; `None` = the Redis of the default pool.
    pub admin_store: Option<StoreConfig>,
    /// The server of lmstfy whose queues drain into this one.
    pub drained_server: DrainedServerConfig,
    /// The listener for Youzan's protocol.
    pub youzan: YouzanConfig,
    /// The pools, by name. Each is one Redis deployment.
    pub pool: BTreeMap<String, StoreConfig>,
}

impl Settings for ApiConfig {
    const PROGRAM: &'static str = "tidegate-api";
    const DEFAULTS: &'static str = DEFAULTS;
    const SIBLING: &'static str = include_str!("../../../config/pumpd.toml");
    const FROM_LMSTFY: &'static [&'static str] = &[
        "listen",
        "admin_listen",
        "log",
        "accounts",
        "job",
        "pool",
        "admin_store",
    ];

    fn check(&self) -> Result<(), String> {
        if !self.pool.contains_key(DEFAULT_POOL) {
            return Err(format!("the table [pool.{DEFAULT_POOL}] is missing"));
        }
        if let Some(name) = self.pool.keys().find(|name| !is_pool_name(name)) {
            return Err(format!(
                "pool {name:?}: a name has 1 to {POOL_BYTES_MAX} letters, digits, - and _"
            ));
        }
        self.check_migrations()?;
        self.check_admin()?;
        self.requests.check(self.connections.header_bytes_max)?;
        self.drained_server.check()?;
        self.youzan.check(|name| self.pool.contains_key(name))?;
        let pools: BTreeSet<&str> = self.pool.keys().map(String::as_str).collect();
        self.durability.check(&pools, self.requests.timeout)
    }

    /// A file that is empty for a moment, since it is being written, must not open the admin port.
    fn check_reload(&self, running: &Self) -> Result<(), String> {
        match self.accounts.is_empty() && !running.accounts.is_empty() {
            true => Err(
                "accounts: none is left, so the admin port would need no credentials; removing all accounts needs a restart"
                    .to_owned(),
            ),
            false => Ok(()),
        }
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

    fn drain_delay(&self) -> Duration {
        self.drain_delay
    }
}

impl ApiConfig {
    fn check_migrations(&self) -> Result<(), String> {
        for (name, pool) in &self.pool {
            let Some(target) = &pool.migrate_to else {
                continue;
            };
            let problem = match self.pool.get(target) {
                None => "there is no such pool",
                Some(_) if target == name => "a pool cannot move to itself",
                Some(pool) if pool.migrate_to.is_some() => "that pool has migrate_to as well",
                Some(_) => continue,
            };
            return Err(format!("pool.{name}.migrate_to = {target:?}: {problem}"));
        }
        Ok(())
    }

    fn check_admin(&self) -> Result<(), String> {
        for (name, password) in &self.accounts {
            // In HTTP basic authentication the first colon ends the name.
            if name.is_empty() || name.contains(':') || password.text().is_empty() {
                return Err(format!(
                    "accounts, {name:?}: the name must not be empty or contain a colon, and the password must not be empty"
                ));
            }
        }
        let mut roles = self.account_roles.keys();
        if let Some(name) = roles.find(|name| !self.accounts.contains_key(*name)) {
            return Err(format!(
                "account_roles, {name:?}: there is no such account; add it to [accounts], or remove its role"
            ));
        }
        let is_private = self.admin_listen.ip().to_canonical().is_loopback();
        if !is_private && self.accounts.is_empty() && !self.allow_open_admin {
            return Err(format!(
                "admin_listen = {}: other machines could create tokens without credentials; configure [accounts], \
                 listen on 127.0.0.1 (in a file of lmstfy: [Accounts], AdminHost), or set allow_open_admin = true \
                 (--allow-open-admin)",
                self.admin_listen
            ));
        }
        Ok(())
    }
}

/// Whether this is the name of a pool, as API keys and tokens contain it.
fn is_pool_name(name: &str) -> bool {
    let is_allowed = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_');
    (1..=POOL_BYTES_MAX).contains(&name.len()) && name.bytes().all(is_allowed)
}

#[cfg(test)]
mod tests;
