//! A Redis of one's own.

use tidegate_local_redis::{
    Error, Options, RedisCluster, RedisServer, ServerBinary, obtain, obtain_old, obtain_valkey,
    workspace_cache,
};

use crate::seed::figure;
use crate::wall_clock::WallClock;

/// Which Redis to start. The default is what a deployment should have: an append-only file written to
/// disk once a second, and no eviction.
#[derive(Debug, Clone, Default)]
pub struct RedisOptions {
    program: Program,
    is_sentinel: bool,
    outlives_a_full_disk: bool,
    environment: Vec<(String, String)>,
    settings: Vec<(String, String)>,
}

/// Which program to run.
#[derive(Debug, Clone, Copy, Default)]
enum Program {
    /// Whatever there is of a fitting age.
    #[default]
    Usual,
    Old,
    Valkey,
}

impl RedisOptions {
    /// The default.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Every write reaches the disk before it is answered: nothing acknowledged is lost when the
    /// process dies.
    #[must_use]
    pub fn always_synced(self) -> Self {
        self.setting("appendfsync", "always")
    }

    /// No append-only file: a restart loses everything.
    #[must_use]
    pub fn without_append_only_file(self) -> Self {
        self.setting("appendonly", "no")
    }

    /// A Redis 6.2, older than is supported.
    #[must_use]
    pub fn old(mut self) -> Self {
        self.program = Program::Old;
        self
    }

    /// A Valkey 8, which has `WAITAOF`.
    #[must_use]
    pub fn valkey(mut self) -> Self {
        self.program = Program::Valkey;
        self
    }

    /// A Redis Sentinel; what it watches is told by settings of the name `sentinel`.
    #[must_use]
    pub fn sentinel() -> Self {
        Self {
            is_sentinel: true,
            ..Self::default()
        }
    }

    /// It can be given a full disk by [`limit_disk`](crate::limit_disk).
    #[must_use]
    pub fn outlives_a_full_disk(mut self) -> Self {
        self.outlives_a_full_disk = true;
        self
    }

    /// It has this clock, which can be set while it runs. Each look at the clock then takes some µs more.
    #[must_use]
    pub fn clock(mut self, clock: &WallClock) -> Self {
        let environment = clock.environment();
        let own = environment.map(|(name, value)| (name.to_owned(), value));
        self.environment.extend(own);
        self
    }

    /// A line of `redis.conf`.
    #[must_use]
    pub fn setting(mut self, name: &str, value: &str) -> Self {
        self.settings.push((name.to_owned(), value.to_owned()));
        self
    }

    /// Starts it. Blocks for some 50 ms, longer when the program has to be fetched first.
    ///
    /// # Panics
    /// When no fitting program can be had or it does not start; the message says why.
    #[must_use]
    pub fn start(&self) -> RedisServer {
        RedisServer::start(self.options()).unwrap_or_else(|error| panic!("{error}"))
    }

    /// Starts a cluster of so many, and a replica of each. Blocks for some seconds.
    ///
    /// # Panics
    /// When it does not come up; the message says why.
    #[must_use]
    pub fn start_cluster(&self, primaries: usize) -> RedisCluster {
        let started = RedisCluster::start(&self.options(), primaries, 1);
        started.unwrap_or_else(|error| panic!("{error}"))
    }

    fn options(&self) -> Options {
        let options = if self.is_sentinel {
            Options::sentinel(self.binary())
        } else {
            Options::new(self.binary())
        };
        let options = match self.outlives_a_full_disk {
            true => options.outlives_a_full_disk(),
            false => options,
        };
        let environment = self.environment.iter();
        let options = environment.fold(options, |options, (name, value)| {
            options.variable(name, value)
        });
        let settings = self.settings.iter();
        settings.fold(options, |options, (name, value)| {
            options.setting(name, value)
        })
    }

    /// Whether there is such a program, or one can be fetched. Blocks while it is fetched.
    #[must_use]
    pub fn can_be_had(&self) -> bool {
        self.obtained().is_ok()
    }

    fn binary(&self) -> ServerBinary {
        self.obtained().unwrap_or_else(|error| panic!("{error}"))
    }

    fn obtained(&self) -> Result<ServerBinary, Error> {
        let mut tell = |line: &str| figure(line);
        let cache = workspace_cache();
        match self.program {
            Program::Usual => obtain(&cache, &mut tell),
            Program::Old => obtain_old(&cache, &mut tell),
            Program::Valkey => obtain_valkey(&cache, &mut tell),
        }
    }
}

/// A Redis with the default options. Dropping the handle ends it.
#[must_use]
pub fn redis() -> RedisServer {
    RedisOptions::new().start()
}
