//! A private Redis with daemons.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use tidegate_core::JobsByState;

use tempfile::TempDir;
use tidegate_local_redis::{KEEP_VARIABLE, RedisServer};

use crate::consistency;
use crate::daemon::Daemon;
use crate::program::DaemonProgram;
use crate::queue::QueueClient;
use crate::redis_server::RedisOptions;
use crate::seed::{print_figure, seed};

/// The pool of tokens without a pool name.
const DEFAULT_POOL: &str = "default";
const API_CONFIG: &str = "api.toml";
const PUMP_CONFIG: &str = "pump.toml";

/// Builds a [`Stack`]: daemons, Redis and settings.
#[derive(Debug, Clone)]
pub struct StackBuilder {
    apis: usize,
    pumps: usize,
    redis: RedisOptions,
    pools: Vec<String>,
    api_config: String,
    pump_config: String,
    pump_arguments: Vec<String>,
    environment: Vec<(String, String)>,
    unsafe_redis: bool,
}

/// A Redis and daemons that use it. Dropping it kills them all.
#[derive(Debug)]
pub struct Stack {
    // Dropped in this order: daemons end before Redis, and the folder is removed last.
    apis: Vec<Daemon>,
    pumps: Vec<Daemon>,
    /// The Redis of the default pool.
    pub redis: RedisServer,
    pools: BTreeMap<String, RedisServer>,
    folder: Option<TempDir>,
    keep: AtomicBool,
    namespaces: AtomicU64,
}

impl StackBuilder {
    /// Sets the number of `tidegate-api` processes. Default: 1.
    #[must_use]
    pub const fn apis(mut self, count: usize) -> Self {
        self.apis = count;
        self
    }

    /// Sets the number of `tidegate-pumpd` processes. Default: 1.
    #[must_use]
    pub const fn pumps(mut self, count: usize) -> Self {
        self.pumps = count;
        self
    }

    /// Sets the options of Redis.
    #[must_use]
    pub fn redis(mut self, options: RedisOptions) -> Self {
        self.redis = options;
        self
    }

    /// Adds a pool on a separate Redis, with the same options.
    #[must_use]
    pub fn pool(mut self, name: &str) -> Self {
        self.pools.push(name.to_owned());
        self
    }

    /// Adds lines to the configuration file of the APIs. Default: none.
    #[must_use]
    pub fn api_config(mut self, toml: &str) -> Self {
        let _ = writeln!(self.api_config, "{toml}");
        self
    }

    /// Adds lines to the configuration file of the pumps. Default: none.
    #[must_use]
    pub fn pump_config(mut self, toml: &str) -> Self {
        let _ = writeln!(self.pump_config, "{toml}");
        self
    }

    /// Adds variables to the environment of all daemons.
    #[must_use]
    pub fn environment(mut self, variables: &[(String, String)]) -> Self {
        self.environment.extend_from_slice(variables);
        self
    }

    /// Sets the lease of the pumps, such as `3s`.
    #[must_use]
    pub fn lease(self, lease: &str) -> Self {
        self.pump_argument("--lease", lease)
    }

    /// Gives every pump the same name, and so the same lease token. The locks then exclude no pump,
    /// since each one seems to hold all of them.
    #[must_use]
    pub fn same_pump_name(self) -> Self {
        self.pump_argument("--instance", "everyone")
    }

    /// Passes `--allow-unsafe-redis` to every daemon.
    #[must_use]
    pub const fn allow_unsafe_redis(mut self) -> Self {
        self.unsafe_redis = true;
        self
    }

    fn pump_argument(mut self, name: &str, value: &str) -> Self {
        self.pump_arguments
            .extend([name.to_owned(), value.to_owned()]);
        self
    }

    /// Starts everything and waits until the daemons serve.
    ///
    /// # Panics
    /// If something does not start.
    pub async fn start(self) -> Stack {
        let folder = tempfile::Builder::new()
            .prefix("tidegate-test-")
            .tempdir()
            .expect("a temporary folder can be made");
        let redis = self.start_redis().await;
        let mut pools = BTreeMap::new();
        for name in &self.pools {
            pools.insert(name.clone(), self.start_redis().await);
        }
        let mut stack = Stack {
            apis: Vec::new(),
            pumps: Vec::new(),
            redis,
            pools,
            folder: Some(folder),
            keep: AtomicBool::new(false),
            namespaces: AtomicU64::new(0),
        };
        stack.write_config(API_CONFIG, &self.api_config);
        stack.write_config(PUMP_CONFIG, &self.pump_config);
        for number in 0..self.apis {
            let name = format!("api-{number}");
            let arguments = self.arguments(&stack, API_CONFIG);
            let daemon = self.daemon(&stack, DaemonProgram::Api, &name, &arguments);
            let daemon = daemon.await;
            stack.apis.push(daemon);
        }
        for number in 0..self.pumps {
            let name = format!("pump-{number}");
            let mut arguments = self.arguments(&stack, PUMP_CONFIG);
            arguments.extend_from_slice(&self.pump_arguments);
            let daemon = self.daemon(&stack, DaemonProgram::Pumpd, &name, &arguments);
            let daemon = daemon.await;
            stack.pumps.push(daemon);
        }
        stack
    }

    async fn start_redis(&self) -> RedisServer {
        let options = self.redis.clone();
        let starting = tokio::task::spawn_blocking(move || options.start());
        starting.await.expect("redis starts")
    }

    async fn daemon(
        &self,
        stack: &Stack,
        program: DaemonProgram,
        name: &str,
        arguments: &[String],
    ) -> Daemon {
        let environment = self.environment.iter();
        let environment: Vec<_> = environment
            .map(|(name, value)| (name.as_str(), value.as_str()))
            .collect();
        Daemon::start_with(program, name, arguments, &environment, stack.folder()).await
    }

    fn arguments(&self, stack: &Stack, config: &str) -> Vec<String> {
        let path = stack.folder().join(config).display().to_string();
        let mut arguments = vec![
            "--redis".to_owned(),
            stack.redis.url(),
            "--config".to_owned(),
            path,
        ];
        if self.unsafe_redis {
            arguments.push("--allow-unsafe-redis".to_owned());
        }
        arguments
    }
}

impl Stack {
    /// Returns a builder with one API, one pump, and a Redis with the default options.
    #[must_use]
    pub fn builder() -> StackBuilder {
        StackBuilder {
            apis: 1,
            pumps: 1,
            redis: RedisOptions::new(),
            pools: Vec::new(),
            api_config: String::new(),
            pump_config: String::new(),
            pump_arguments: Vec::new(),
            environment: Vec::new(),
            unsafe_redis: false,
        }
    }

    /// Writes a configuration file with these lines and the pools.
    fn write_config(&self, file: &str, lines: &str) {
        let mut config = lines.to_owned();
        for (name, redis) in &self.pools {
            let _ = write!(config, "[pool.{name}]\nurl = \"{}\"\n", redis.url());
        }
        std::fs::write(self.folder().join(file), config).expect("a configuration file is written");
    }

    /// Replaces the configuration file of the APIs by these lines and the pools. Takes effect at the
    /// next start of each API.
    pub fn change_api_config(&self, lines: &str) {
        self.write_config(API_CONFIG, &format!("{lines}\n"));
    }

    /// The same for the pumps.
    pub fn change_pump_config(&self, lines: &str) {
        self.write_config(PUMP_CONFIG, &format!("{lines}\n"));
    }

    /// Returns the Redis of an added pool.
    ///
    /// # Panics
    /// If there is no such pool.
    #[must_use]
    pub fn redis_of(&self, pool: &str) -> &RedisServer {
        &self.pools[pool]
    }

    fn folder(&self) -> &std::path::Path {
        self.folder
            .as_ref()
            .expect("the folder lasts as long as the stack")
            .path()
    }

    /// Returns the API with this number, from 0.
    ///
    /// # Panics
    /// If there is none.
    #[must_use]
    pub fn api(&self, number: usize) -> &Daemon {
        &self.apis[number]
    }

    /// How many APIs there are.
    pub const fn apis(&self) -> usize {
        self.apis.len()
    }

    /// Returns the pump with this number, from 0.
    ///
    /// # Panics
    /// If there is none.
    #[must_use]
    pub fn pump(&self, number: usize) -> &Daemon {
        &self.pumps[number]
    }

    /// Returns a client of a queue with this name in a new namespace, through the first API.
    ///
    /// The namespace determines the buckets of its queues, so it is derived from the seed.
    pub async fn queue(&self, name: &str) -> QueueClient {
        let number = self.namespaces.fetch_add(1, Ordering::Relaxed);
        let namespace = format!("ns-{:x}-{number}", seed());
        self.queue_in(&namespace, name).await
    }

    /// Returns a client of a queue in the given namespace, with a new token, through the first API.
    pub async fn queue_in(&self, namespace: &str, name: &str) -> QueueClient {
        QueueClient::with_new_token(self.api(0), DEFAULT_POOL, namespace, name).await
    }

    /// Returns a client of a queue in the given namespace of a pool, with a new token, through the
    /// first API.
    pub async fn queue_of(&self, pool: &str, namespace: &str, name: &str) -> QueueClient {
        QueueClient::with_new_token(self.api(0), pool, namespace, name).await
    }

    /// Checks that no job is lost, orphaned or counted wrongly. Can be called at any time, while
    /// daemons run.
    ///
    /// # Panics
    /// If something is inconsistent; the message lists it.
    pub async fn check_conservation(&self) {
        consistency::check(&self.redis.url()).await;
        for redis in self.pools.values() {
            consistency::check(&redis.url()).await;
        }
    }

    /// Counts the jobs of the default pool by state.
    ///
    /// # Panics
    /// If Redis cannot be read.
    pub async fn totals(&self) -> JobsByState {
        consistency::totals(&self.redis.url()).await
    }

    /// Calls [`Self::check_conservation`] and ends everything.
    pub async fn finish(self) {
        self.check_conservation().await;
    }

    /// Keeps the folder with the logs when the stack is dropped.
    pub(crate) fn keep(&self) {
        self.keep.store(true, Ordering::Relaxed);
    }
}

impl Drop for Stack {
    fn drop(&mut self) {
        let is_asked = std::env::var_os(KEEP_VARIABLE).is_some_and(|value| value == "1");
        if std::thread::panicking() || is_asked || self.keep.load(Ordering::Relaxed) {
            let kept = self.folder.take().map(TempDir::keep);
            print_figure(&format!(
                "logs are kept in {}",
                kept.unwrap_or_default().display()
            ));
            let redis_log = self.redis.log_tail();
            print_figure(&format!("last log lines of Redis:\n{redis_log}"));
        }
    }
}
