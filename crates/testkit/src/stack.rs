//! A private Redis with daemons on it.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use tempfile::TempDir;
use tidegate_local_redis::{KEEP_VARIABLE, RedisServer};

use crate::daemon::Daemon;
use crate::program::Program;
use crate::queue::Queue;
use crate::redis_server::RedisOptions;
use crate::seed::{figure, seed};
use crate::world;

/// The pool of requests that name none.
const DEFAULT_POOL: &str = "default";
const API_CONFIG: &str = "api.toml";
const PUMP_CONFIG: &str = "pump.toml";

/// Which daemons to start, on which Redis, with which settings.
#[derive(Debug, Clone)]
pub struct StackBuilder {
    apis: usize,
    pumps: usize,
    redis: RedisOptions,
    pools: Vec<String>,
    api_config: String,
    pump_config: String,
    pump_arguments: Vec<String>,
    unsafe_redis: bool,
}

/// A Redis and daemons that use it. Dropping it ends them all at once.
#[derive(Debug)]
pub struct Stack {
    // Dropped in this order: daemons do not see Redis go, and the folder goes last.
    apis: Vec<Daemon>,
    pumps: Vec<Daemon>,
    /// The Redis below: that of pool default.
    pub redis: RedisServer,
    pools: BTreeMap<String, RedisServer>,
    folder: Option<TempDir>,
    keep: AtomicBool,
    namespaces: AtomicU64,
}

impl StackBuilder {
    /// How many `tidegate-api` to start. Default: 1.
    #[must_use]
    pub const fn apis(mut self, count: usize) -> Self {
        self.apis = count;
        self
    }

    /// How many `tidegate-pumpd` to start. Default: 1.
    #[must_use]
    pub const fn pumps(mut self, count: usize) -> Self {
        self.pumps = count;
        self
    }

    /// Which Redis to start.
    #[must_use]
    pub fn redis(mut self, options: RedisOptions) -> Self {
        self.redis = options;
        self
    }

    /// A further pool on a Redis of its own, with the options of the first.
    #[must_use]
    pub fn pool(mut self, name: &str) -> Self {
        self.pools.push(name.to_owned());
        self
    }

    /// Lines of the configuration file of every api. Default: none, and no file.
    #[must_use]
    pub fn api_config(mut self, toml: &str) -> Self {
        let _ = writeln!(self.api_config, "{toml}");
        self
    }

    /// Lines of the configuration file of every pump. Default: none, and no file.
    #[must_use]
    pub fn pump_config(mut self, toml: &str) -> Self {
        let _ = writeln!(self.pump_config, "{toml}");
        self
    }

    /// How long a pump's lease of a bucket lasts, such as `3s`.
    #[must_use]
    pub fn lease(self, lease: &str) -> Self {
        self.pump_argument("--lease", lease)
    }

    /// Gives every pump the same name, and so the same lease token: the lock becomes useless, as all
    /// pumps believe that they hold it.
    #[must_use]
    pub fn one_name_for_all_pumps(self) -> Self {
        self.pump_argument("--instance", "everyone")
    }

    /// Lets every daemon start on a Redis that may lose jobs.
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

    /// Starts everything and waits until it is ready.
    ///
    /// # Panics
    /// When something does not start.
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
            let daemon = stack.daemon(Program::Api, &name, &arguments).await;
            stack.apis.push(daemon);
        }
        for number in 0..self.pumps {
            let name = format!("pump-{number}");
            let mut arguments = self.arguments(&stack, PUMP_CONFIG);
            arguments.extend_from_slice(&self.pump_arguments);
            let daemon = stack.daemon(Program::Pumpd, &name, &arguments).await;
            stack.pumps.push(daemon);
        }
        stack
    }

    async fn start_redis(&self) -> RedisServer {
        let options = self.redis.clone();
        let starting = tokio::task::spawn_blocking(move || options.start());
        starting.await.expect("redis starts")
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
    /// One api and one pump on a Redis with the default options; change what differs.
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
            unsafe_redis: false,
        }
    }

    /// Writes a configuration file: these lines, and the pools.
    fn write_config(&self, file: &str, lines: &str) {
        let mut config = lines.to_owned();
        for (name, redis) in &self.pools {
            let _ = write!(config, "[pool.{name}]\nurl = \"{}\"\n", redis.url());
        }
        std::fs::write(self.folder().join(file), config).expect("a configuration file is written");
    }

    /// Changes the configuration file of every api: these lines, and the pools. It counts from the next
    /// start of each.
    pub fn change_api_config(&self, lines: &str) {
        self.write_config(API_CONFIG, &format!("{lines}\n"));
    }

    /// The Redis of a further pool.
    ///
    /// # Panics
    /// When there is no such pool.
    #[must_use]
    pub fn redis_of(&self, pool: &str) -> &RedisServer {
        &self.pools[pool]
    }

    async fn daemon(&self, program: Program, name: &str, arguments: &[String]) -> Daemon {
        Daemon::start(program, name, arguments, self.folder()).await
    }

    fn folder(&self) -> &std::path::Path {
        self.folder
            .as_ref()
            .expect("the folder lasts as long as the stack")
            .path()
    }

    /// The api of this number, from 0.
    ///
    /// # Panics
    /// When there is none.
    #[must_use]
    pub fn api(&self, number: usize) -> &Daemon {
        &self.apis[number]
    }

    /// The pump of this number, from 0.
    ///
    /// # Panics
    /// When there is none.
    #[must_use]
    pub fn pump(&self, number: usize) -> &Daemon {
        &self.pumps[number]
    }

    /// A client of a queue of this name in a namespace that nobody else uses, through the first api.
    ///
    /// The name of the namespace decides where its queues lie, so it is one of the choices that the
    /// seed repeats.
    pub async fn queue(&self, name: &str) -> Queue {
        let number = self.namespaces.fetch_add(1, Ordering::Relaxed);
        let namespace = format!("ns-{:x}-{number}", seed());
        self.queue_in(&namespace, name).await
    }

    /// A client of a queue in the given namespace, with a new token, through the first api.
    pub async fn queue_in(&self, namespace: &str, name: &str) -> Queue {
        Queue::with_new_token(self.api(0), DEFAULT_POOL, namespace, name).await
    }

    /// A client of a queue in the given namespace of a pool, with a new token, through the first api.
    pub async fn queue_of(&self, pool: &str, namespace: &str, name: &str) -> Queue {
        Queue::with_new_token(self.api(0), pool, namespace, name).await
    }

    /// Checks that no job is lost, orphaned or counted wrongly. May be called at any time, while
    /// daemons are at work.
    ///
    /// # Panics
    /// When something is amiss; the message lists it.
    pub async fn check_conservation(&self) {
        world::check(&self.redis.url()).await;
        for redis in self.pools.values() {
            world::check(&redis.url()).await;
        }
    }

    /// How many jobs there are in pool default, by state.
    ///
    /// # Panics
    /// When Redis cannot be read.
    pub async fn totals(&self) -> world::Totals {
        world::totals(&self.redis.url()).await
    }

    /// Checks the world and ends everything.
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
            figure(&format!(
                "logs are kept in {}",
                kept.unwrap_or_default().display()
            ));
            let redis_log = self.redis.log_tail();
            figure(&format!("last words of redis:\n{redis_log}"));
        }
    }
}
