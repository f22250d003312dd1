//! A private Redis.

use tidegate_local_redis::{
    LocalRedisError, LocalRedisOptions, RedisCluster, RedisServer, ServerBinary, obtain,
    obtain_old, obtain_valkey, workspace_cache,
};

use crate::seed::print_figure;
use crate::wall_clock::WallClock;

/// Options of a Redis. The default is as recommended for a deployment: an append-only file that is synced once a
/// second, and no eviction.
#[derive(Debug, Clone)]
pub struct RedisOptions(LocalRedisOptions);

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

impl RedisOptions {
    /// Returns the default options, with any supported version.
    ///
    /// # Panics
    /// If no server can be obtained; so do [`Self::valkey`], [`Self::old`] and [`Self::sentinel`].
    #[must_use]
    #[expect(clippy::new_without_default, reason = "it may download a server")]
    pub fn new() -> Self {
        let binary = obtain(&workspace_cache(), &mut print_figure);
        Self(LocalRedisOptions::new(expect_server(binary)))
    }

    /// Returns options of a Redis 6.2, which is too old to be supported.
    #[must_use]
    pub fn old() -> Self {
        let binary = obtain_old(&workspace_cache(), &mut print_figure);
        Self(LocalRedisOptions::new(expect_server(binary)))
    }

    /// Returns options of a Valkey 8, which has `WAITAOF`.
    #[must_use]
    pub fn valkey() -> Self {
        Self(LocalRedisOptions::new(expect_server(obtained_valkey())))
    }

    /// Whether a Valkey is available or can be downloaded. Blocks during a download.
    #[must_use]
    pub fn has_valkey() -> bool {
        obtained_valkey().is_ok()
    }

    /// Returns options of a Redis Sentinel. Settings with the name `sentinel` say what it monitors.
    #[must_use]
    pub fn sentinel() -> Self {
        let binary = obtain(&workspace_cache(), &mut print_figure);
        Self(LocalRedisOptions::sentinel(expect_server(binary)))
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

    /// Lets [`limit_file_size`](crate::limit_file_size) simulate a full disk.
    #[must_use]
    pub fn ignores_sigxfsz(self) -> Self {
        Self(self.0.ignores_sigxfsz())
    }

    /// Gives it this wall clock, which can be set while it runs. Reading the clock then takes a few µs more.
    #[must_use]
    pub fn clock(self, clock: &WallClock) -> Self {
        let environment = clock.environment().into_iter();
        Self(environment.fold(self.0, |options, (name, value)| {
            options.environment_variable(name, value)
        }))
    }

    /// Adds a line of `redis.conf`.
    #[must_use]
    pub fn setting(self, name: &str, value: &str) -> Self {
        Self(self.0.setting(name, value))
    }

    /// Starts it with this configuration file and no other settings. Changes of the file by the server are kept over
    /// restarts.
    #[must_use]
    pub fn whole_file(self, file: WholeFile) -> Self {
        let options = self.0.port(file.port);
        Self(options.whole_file(file.text, file.user, file.password))
    }

    /// Starts it. Blocks for about 50 ms.
    ///
    /// # Panics
    /// If it does not start.
    #[must_use]
    pub fn start(&self) -> RedisServer {
        RedisServer::start(self.0.clone()).unwrap_or_else(|error| panic!("{error}"))
    }

    /// Starts a cluster of `primaries` primaries with one replica each. Blocks for some seconds.
    ///
    /// # Panics
    /// If it does not start.
    #[must_use]
    pub fn start_cluster(&self, primaries: usize) -> RedisCluster {
        let started = RedisCluster::start(&self.0, primaries, 1);
        started.unwrap_or_else(|error| panic!("{error}"))
    }
}

fn obtained_valkey() -> Result<ServerBinary, LocalRedisError> {
    obtain_valkey(&workspace_cache(), &mut print_figure)
}

fn expect_server(obtained: Result<ServerBinary, LocalRedisError>) -> ServerBinary {
    obtained.unwrap_or_else(|error| panic!("{error}"))
}

/// Starts a Redis with the default options. Dropping the handle kills it.
///
/// # Panics
/// If it does not start.
#[must_use]
pub fn start_redis() -> RedisServer {
    RedisOptions::new().start()
}
