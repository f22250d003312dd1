//! Settings of the daemon. `config/api.toml` is the commented default and the base layer.

mod bounds;
mod durability;
mod tables;

use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde::Deserialize;
use tidegate_launch::Settings;
use tidegate_service::{Bound, ListenLimits, LogConfig};
use tidegate_store::StoreConfig;

pub use durability::DurabilityConfig;
pub use tables::{JobDefaults, MetricsConfig, Password, RequestLimits, WaiterConfig};

/// The built-in defaults: every key, with what it means.
pub const DEFAULTS: &str = include_str!("../../../config/api.toml");

/// The pool that must be there: requests without a pool go to it, and it keeps the tokens unless there
/// is an admin store.
pub const DEFAULT_POOL: &str = "default";

/// All settings of `tidegate-api`.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Config {
    /// Where jobs are published and consumed.
    pub listen: SocketAddr,
    /// Where tokens are made and metrics are served. It asks for credentials if there are accounts.
    pub admin_listen: SocketAddr,
    /// Whether to start with an admin port that other machines reach and that has no accounts.
    pub allow_open_admin: bool,
    /// Whether requests need no token: for development.
    pub skip_token_checks: bool,
    /// How long to wait for Redis at the start.
    #[serde(with = "humantime_serde")]
    pub connect_patience: Duration,
    /// How long requests may take to finish after a stop was asked for.
    #[serde(with = "humantime_serde")]
    pub drain_timeout: Duration,
    /// How long to go on serving, but not ready, after a stop was asked for.
    #[serde(with = "humantime_serde")]
    pub drain_delay: Duration,
    /// Where the id of the process is written; empty = nowhere.
    pub pid_file: PathBuf,
    /// How much is logged, and how.
    pub log: LogConfig,
    /// What the public listener puts up with.
    pub connections: ListenLimits,
    /// How large requests may be, and how long they may take.
    pub requests: RequestLimits,
    /// How consumers wait.
    pub waiters: WaiterConfig,
    /// What metrics may cost.
    pub metrics: MetricsConfig,
    /// What applies where a request does not say.
    pub job: JobDefaults,
    /// What publishes wait for.
    pub durability: DurabilityConfig,
    /// Who may use the admin port: passwords by name. None = whoever can connect.
    pub accounts: BTreeMap<String, Password>,
    /// Whether tokens are stored as hashes.
    pub hash_tokens: bool,
    /// Where tokens and limits are kept; pool default if there is none.
    pub admin_store: Option<StoreConfig>,
    /// The Redis deployments, by name.
    pub pool: BTreeMap<String, StoreConfig>,
}

impl Settings for Config {
    const PROGRAM: &'static str = "tidegate-api";
    const DEFAULTS: &'static str = DEFAULTS;
    const OPTIONAL: &'static str =
        "[accounts]\n\"*\" = \"password\"\n[durability.namespaces]\n\"*\" = \"memory\"\n";
    const BOUNDS: &'static [(&'static str, Bound)] = &bounds::BOUNDS;
    const DEPLOYMENTS: &'static [&'static str] = &["admin_store"];
    const RELOADABLE: &'static [&'static str] = &["log.level", "log.access", "accounts", "job"];
    const FOREIGN_TABLES: &'static [&'static str] = &["pump"];
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
        self.check_migrations()?;
        self.check_admin()?;
        self.requests.check(self.connections.header_bytes_max)?;
        let pools: BTreeSet<&str> = self.pool.keys().map(String::as_str).collect();
        self.durability.check(&pools, self.requests.timeout)
    }

    fn log(&self) -> &LogConfig {
        &self.log
    }

    fn pid_file(&self) -> &Path {
        &self.pid_file
    }

    fn drain_delay(&self) -> Duration {
        self.drain_delay
    }
}

impl Config {
    fn check_migrations(&self) -> Result<(), String> {
        for (name, pool) in &self.pool {
            let Some(target) = &pool.migrate_to else {
                continue;
            };
            let problem = match self.pool.get(target) {
                None => "there is no such pool",
                Some(_) if target == name => "that is the pool itself",
                Some(pool) if pool.migrate_to.is_some() => "that pool moves on to another one",
                Some(_) => continue,
            };
            return Err(format!("pool.{name}.migrate_to = {target:?}: {problem}"));
        }
        Ok(())
    }

    fn check_admin(&self) -> Result<(), String> {
        for (name, password) in &self.accounts {
            // The colon ends the name when it comes over the wire.
            if name.is_empty() || name.contains(':') || password.text().is_empty() {
                return Err(format!(
                    "accounts, {name:?}: a name must not be empty or contain a colon, and must have a password"
                ));
            }
        }
        let is_private = self.admin_listen.ip().to_canonical().is_loopback();
        if !is_private && self.accounts.is_empty() && !self.allow_open_admin {
            return Err(format!(
                "admin_listen = {}: other machines could make tokens there; name [accounts], listen on \
                 127.0.0.1 (in a file of lmstfy: [Accounts], AdminHost), or say allow_open_admin = true \
                 (--allow-open-admin)",
                self.admin_listen
            ));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
