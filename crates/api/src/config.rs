//! Settings of the daemon. `config/api.toml` is the commented default and the base layer.

use std::collections::BTreeMap;
use std::fmt;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde::Deserialize;
use tidegate_core::NAME_BYTES_MAX;
use tidegate_launch::Settings;
use tidegate_service::{ListenLimits, LogConfig};
use tidegate_store::{PUBLISH_JOBS_MAX, StoreConfig};

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
    /// Who may use the admin port: passwords by name. None = whoever can connect.
    pub accounts: BTreeMap<String, Password>,
    /// Whether tokens are stored as hashes.
    pub hash_tokens: bool,
    /// Where tokens and limits are kept; pool default if there is none.
    pub admin_store: Option<StoreConfig>,
    /// The Redis deployments, by name.
    pub pool: BTreeMap<String, StoreConfig>,
}

/// A password of the admin port. It is never shown.
#[derive(Clone, Deserialize)]
#[serde(from = "String")]
pub struct Password(Box<str>);

impl Password {
    pub(crate) fn text(&self) -> &str {
        &self.0
    }
}

impl From<String> for Password {
    fn from(text: String) -> Self {
        Self(text.into())
    }
}

impl fmt::Debug for Password {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("Password(…)")
    }
}

/// How large requests may be, and how long they may take.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RequestLimits {
    /// The longest wait for each MiB of a body.
    #[serde(with = "humantime_serde")]
    pub body_timeout: Duration,
    /// The longest name of a namespace or queue, in bytes; 1 to 255.
    pub name_bytes_max: usize,
    /// The longest body of a job, in bytes; up to 8 MiB.
    pub job_bytes_max: usize,
    /// The longest body of a bulk publish, in bytes; up to 1 GiB.
    pub bulk_bytes_max: usize,
    /// Jobs in a bulk publish; 1 to 64.
    pub bulk_jobs_max: usize,
    /// Jobs that one consume may ask for; 1 to 100.
    pub consume_jobs_max: u16,
    /// Queues that one consume may name.
    pub consume_queues_max: usize,
    /// The longest time, apart from what the client takes: for its body, and while it waits for a job.
    #[serde(with = "humantime_serde")]
    pub timeout: Duration,
}

/// How consumers wait.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct WaiterConfig {
    /// The longest time between two looks at a queue that somebody waits for, should every message
    /// from Redis be lost.
    #[serde(with = "humantime_serde")]
    pub poll_interval: Duration,
    /// The longest wait; longer wishes are cut.
    #[serde(with = "humantime_serde")]
    pub wait_max: Duration,
    /// How many may wait in this process.
    pub in_process_max: usize,
    /// How many of them with the same token.
    pub per_token_max: usize,
}

/// What metrics may cost.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MetricsConfig {
    /// How many queues of a pool are told apart, and how many namespaces.
    pub queues_max: usize,
    /// How long what was read from Redis for a scrape is remembered.
    #[serde(with = "humantime_serde")]
    pub refresh: Duration,
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

#[cfg(test)]
impl RequestLimits {
    /// What `config/api.toml` says.
    pub(crate) const SHIPPED: Self = Self {
        body_timeout: Duration::from_secs(30),
        name_bytes_max: 255,
        job_bytes_max: 1 << 20,
        bulk_bytes_max: 67_174_400,
        bulk_jobs_max: 64,
        consume_jobs_max: 100,
        consume_queues_max: 1000,
        timeout: Duration::from_secs(30),
    };
}

impl Settings for Config {
    const PROGRAM: &'static str = "tidegate-api";
    const DEFAULTS: &'static str = DEFAULTS;
    const RELOADABLE: &'static [&'static str] = &["log.level", "log.access", "accounts", "job"];
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
        self.check_requests()?;
        if self.waiters.poll_interval < Duration::from_millis(100) {
            return Err("waiters.poll_interval must be at least 100ms".to_owned());
        }
        if self.requests.timeout < Duration::from_millis(100) {
            return Err("requests.timeout must be at least 100ms".to_owned());
        }
        if self.job.tries == 0 {
            return Err("job.tries must be at least 1".to_owned());
        }
        Ok(())
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

    fn check_requests(&self) -> Result<(), String> {
        let requests = &self.requests;
        let bounds = [
            ("name_bytes_max", requests.name_bytes_max, NAME_BYTES_MAX),
            ("job_bytes_max", requests.job_bytes_max, 8 << 20),
            ("bulk_bytes_max", requests.bulk_bytes_max, 1 << 30),
            ("bulk_jobs_max", requests.bulk_jobs_max, PUBLISH_JOBS_MAX),
            ("consume_jobs_max", requests.consume_jobs_max.into(), 100),
            ("consume_queues_max", requests.consume_queues_max, 10_000),
        ];
        for (key, value, bound) in bounds {
            if value == 0 || value > bound {
                return Err(format!("requests.{key} must be 1 to {bound}, not {value}"));
            }
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
mod tests {
    use tidegate_service::{Sources, load};
    use tidegate_store::UnsafeServer;

    use super::*;

    fn with_flags(flags: &[(&str, String)]) -> Config {
        let sources = Sources {
            defaults: DEFAULTS,
            foreign: None,
            file: None,
            env_prefix: "TIDEGATE",
            environment: &[],
            flags,
        };
        load(&sources).ok().unwrap().settings
    }

    #[test]
    fn the_default_file_has_every_key() {
        let config = with_flags(&[]);
        assert_eq!(config.check(), Ok(()));
        assert_eq!(config.listen.to_string(), "127.0.0.1:7777");
        assert_eq!(config.admin_listen.to_string(), "127.0.0.1:7778");
        let redis = &config.pool[DEFAULT_POOL];
        assert_eq!(redis.url, tidegate_store::DEFAULT_URL);
        assert_eq!(redis.unsafe_server, UnsafeServer::Refuse);
        assert_eq!(config.job, JobDefaults::SHIPPED);
        assert_eq!(config.requests, RequestLimits::SHIPPED);
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

    #[test]
    fn limits_of_requests_are_within_what_can_be_stored() {
        for (key, value) in [
            ("requests.name_bytes_max", "256"),
            ("requests.bulk_jobs_max", "65"),
            ("requests.consume_jobs_max", "0"),
            ("requests.job_bytes_max", "100000000"),
        ] {
            let problem = with_flags(&[(key, value.to_owned())]).check().unwrap_err();
            assert!(
                problem.contains(key) && problem.contains(value),
                "{problem}"
            );
        }
    }

    #[test]
    fn a_pool_moves_to_another_one_that_stays() {
        let with_targets = |targets: &[(&str, &str)]| {
            let mut config = with_flags(&[]);
            for name in ["old", "new"] {
                let pool = config.pool[DEFAULT_POOL].clone();
                config.pool.insert(name.to_owned(), pool);
            }
            for (name, target) in targets {
                let pool = config.pool.get_mut(*name).unwrap();
                pool.migrate_to = Some((*target).to_owned());
            }
            config.check()
        };
        assert_eq!(with_targets(&[("old", "new")]), Ok(()));
        assert_eq!(with_targets(&[("old", "new"), ("default", "new")]), Ok(()));
        for (targets, said) in [
            (&[("old", "nwe")][..], "no such pool"),
            (&[("old", "old")], "the pool itself"),
            (&[("old", "new"), ("new", "default")], "moves on"),
        ] {
            let problem = with_targets(targets).unwrap_err();
            assert!(problem.contains("pool.old.migrate_to"), "{problem}");
            assert!(problem.contains(said), "{problem}");
        }
    }

    #[test]
    fn variables_switch_a_pool_to_sentinels() {
        let variables = [
            ("SENTINELS", "a:1,b"),
            ("MASTER_NAME", "tide"),
            ("PASSWORD", "12345"),
            ("DATABASE", "3"),
            ("TLS", "true"),
        ];
        let environment = variables.map(|(key, value)| {
            let name = format!("TIDEGATE_POOL__DEFAULT__{key}");
            (name, value.to_owned())
        });
        let sources = Sources {
            defaults: DEFAULTS,
            foreign: None,
            file: None,
            env_prefix: "TIDEGATE",
            environment: &environment,
            flags: &[],
        };
        let config = load::<Config>(&sources).unwrap().settings;
        let redis = &config.pool[DEFAULT_POOL];
        assert_eq!(redis.sentinels, ["a:1", "b"]);
        assert_eq!(redis.url, tidegate_store::DEFAULT_URL);
        assert_eq!(redis.password.as_deref(), Some("12345"));
        assert_eq!((redis.database, redis.tls), (Some(3), true));
    }

    #[test]
    fn an_admin_port_for_other_machines_needs_accounts_or_a_word() {
        for (address, is_private) in [
            ("127.0.0.1:1", true),
            ("127.8.8.8:1", true),
            ("[::1]:1", true),
            ("[::ffff:127.0.0.1]:1", true),
            ("0.0.0.0:1", false),
            ("[::]:1", false),
            ("10.0.0.1:1", false),
        ] {
            let config = with_flags(&[("admin_listen", address.to_owned())]);
            assert_eq!(config.check().is_ok(), is_private, "{address}");
            let mut allowed = config.clone();
            allowed.allow_open_admin = true;
            assert_eq!(allowed.check(), Ok(()), "{address}");
            let mut guarded = config;
            let password = Password::from("secret".to_owned());
            guarded.accounts.insert("ops".to_owned(), password);
            assert_eq!(guarded.check(), Ok(()), "{address}");
            assert!(!format!("{guarded:?}").contains("secret"));
        }
    }

    #[test]
    fn an_account_has_a_name_without_colon_and_a_password() {
        for (name, password) in [("", "x"), ("a:b", "x"), ("a", "")] {
            let mut config = with_flags(&[]);
            let password = Password::from(password.to_owned());
            config.accounts.insert(name.to_owned(), password);
            assert!(config.check().unwrap_err().contains("accounts"), "{name}");
        }
    }
}
