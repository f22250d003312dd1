//! A private Redis.

use tidegate_local_redis::{
    LocalRedisError, LocalRedisOptions, RedisCluster, RedisServer, ServerBinary, obtain,
    obtain_old, obtain_valkey, workspace_cache,
};

use crate::seed::print_figure;
use crate::wall_clock::WallClock;

/// Options of a Redis. The default is as recommended for a deployment: an append-only file that is synced once a
/// second, and no eviction.
#[derive(Debug, Clone, Default)]
pub struct RedisOptions {
    program: RedisProgram,
    is_sentinel: bool,
    ignores_sigxfsz: bool,
    environment: Vec<(String, String)>,
    settings: Vec<(String, String)>,
    whole_file: Option<WholeFile>,
}

/// A configuration file of a server.
#[derive(Debug, Clone)]
pub struct WholeFile {
    pub text: String,
    /// The port in the text.
    pub port: u16,
    /// A user who may ask whether the server is up.
    pub user: &'static str,
    /// The password of this user.
    pub password: &'static str,
}

/// The server program.
#[derive(Debug, Clone, Copy, Default)]
enum RedisProgram {
    /// Any supported version.
    #[default]
    Usual,
    Old,
    Valkey,
}

impl RedisOptions {
    /// Returns the default options.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Syncs every write before it is answered (`appendfsync always`): a crash loses no acknowledged
    /// write.
    #[must_use]
    pub fn always_synced(self) -> Self {
        self.setting("appendfsync", "always")
    }

    /// Disables the append-only file: a restart loses everything.
    #[must_use]
    pub fn without_append_only_file(self) -> Self {
        self.setting("appendonly", "no")
    }

    /// Selects a Redis 6.2, which is too old to be supported.
    #[must_use]
    pub fn old(mut self) -> Self {
        self.program = RedisProgram::Old;
        self
    }

    /// Selects a Valkey 8, which has `WAITAOF`.
    #[must_use]
    pub fn valkey(mut self) -> Self {
        self.program = RedisProgram::Valkey;
        self
    }

    /// Returns options for a Redis Sentinel. Settings with the name `sentinel` say what it monitors.
    #[must_use]
    pub fn sentinel() -> Self {
        Self {
            is_sentinel: true,
            ..Self::default()
        }
    }

    /// Lets [`limit_file_size`](crate::limit_file_size) simulate a full disk.
    #[must_use]
    pub fn ignores_sigxfsz(mut self) -> Self {
        self.ignores_sigxfsz = true;
        self
    }

    /// Gives it this wall clock, which can be set while it runs. Reading the clock then takes a few µs
    /// more.
    #[must_use]
    pub fn clock(mut self, clock: &WallClock) -> Self {
        let environment = clock.environment();
        let own = environment.map(|(name, value)| (name.to_owned(), value));
        self.environment.extend(own);
        self
    }

    /// Adds a line of `redis.conf`.
    #[must_use]
    pub fn setting(mut self, name: &str, value: &str) -> Self {
        self.settings.push((name.to_owned(), value.to_owned()));
        self
    }

    /// Starts it with this configuration file and no other settings. Changes of the file by the server are kept over
    /// restarts.
    #[must_use]
    pub fn whole_file(mut self, file: WholeFile) -> Self {
        self.whole_file = Some(file);
        self
    }

    /// Starts it. Blocks for about 50 ms, or longer if the program has to be downloaded first.
    ///
    /// # Panics
    /// If no suitable program is available, or it does not start; the message says why.
    #[must_use]
    pub fn start(&self) -> RedisServer {
        RedisServer::start(self.options()).unwrap_or_else(|error| panic!("{error}"))
    }

    /// Starts a cluster of `primaries` primaries with one replica each. Blocks for some seconds.
    ///
    /// # Panics
    /// If it does not become available; the message says why.
    #[must_use]
    pub fn start_cluster(&self, primaries: usize) -> RedisCluster {
        let started = RedisCluster::start(&self.options(), primaries, 1);
        started.unwrap_or_else(|error| panic!("{error}"))
    }

    fn options(&self) -> LocalRedisOptions {
        let options = if self.is_sentinel {
            LocalRedisOptions::sentinel(self.binary())
        } else {
            LocalRedisOptions::new(self.binary())
        };
        let options = match self.ignores_sigxfsz {
            true => options.ignores_sigxfsz(),
            false => options,
        };
        let options = match &self.whole_file {
            Some(file) => options
                .port(file.port)
                .whole_file(&file.text, file.user, file.password),
            None => options,
        };
        let environment = self.environment.iter();
        let options = environment.fold(options, |options, (name, value)| {
            options.environment_variable(name, value)
        });
        let settings = self.settings.iter();
        settings.fold(options, |options, (name, value)| {
            options.setting(name, value)
        })
    }

    /// Whether such a program is available or can be downloaded. Blocks during a download.
    #[must_use]
    pub fn is_available(&self) -> bool {
        self.obtain().is_ok()
    }

    fn binary(&self) -> ServerBinary {
        self.obtain().unwrap_or_else(|error| panic!("{error}"))
    }

    fn obtain(&self) -> Result<ServerBinary, LocalRedisError> {
        let mut report = |line: &str| print_figure(line);
        let cache = workspace_cache();
        match self.program {
            RedisProgram::Usual => obtain(&cache, &mut report),
            RedisProgram::Old => obtain_old(&cache, &mut report),
            RedisProgram::Valkey => obtain_valkey(&cache, &mut report),
        }
    }
}

/// Starts a Redis with the default options. Dropping the handle kills it.
#[must_use]
pub fn start_redis() -> RedisServer {
    RedisOptions::new().start()
}
