//! A master, its replicas, and sentinels that watch them.

use std::fmt::Display;
use std::time::Duration;

use redis::aio::MultiplexedConnection;
use redis::{Client, FromRedisValue};
use tidegate_local_redis::RedisServer;

use crate::eventually::eventually;
use crate::redis_server::RedisOptions;

/// What the sentinels call the master.
pub const MASTER_NAME: &str = "tide";
/// The password of all servers.
pub const PASSWORD: &str = "sesame-of-the-servers";
/// The password of all sentinels.
pub const SENTINEL_PASSWORD: &str = "sesame-of-the-sentinels";

const SENTINELS: usize = 3;
const QUORUM: usize = 2;
/// A server that is silent for so long is taken for dead.
const DOWN_AFTER_MS: u64 = 1500;
const FAILOVER_TIMEOUT_MS: u64 = 4000;
/// How long replication, or an agreement of sentinels, may take.
const PATIENCE: Duration = Duration::from_secs(60);

/// Servers and sentinels with passwords, all private to one test.
#[derive(Debug)]
pub struct SentinelGroup {
    /// The sentinels, which go first.
    pub sentinels: Vec<RedisServer>,
    /// The servers; the first one began as the master.
    pub servers: Vec<RedisServer>,
}

impl SentinelGroup {
    /// Starts a master with so many replicas, and three sentinels; waits until all know each other.
    ///
    /// # Panics
    /// When that takes too long.
    pub async fn start(replicas: usize) -> Self {
        let started = tokio::task::spawn_blocking(move || {
            let master = server().start();
            let follows = format!("127.0.0.1 {}", master.port());
            let mut servers = vec![master];
            servers.extend((0..replicas).map(|_| server().setting("replicaof", &follows).start()));
            servers
        });
        let mut group = Self {
            servers: started.await.expect("servers start"),
            sentinels: Vec::new(),
        };
        let master = group.url(0);
        eventually("replicas follow", PATIENCE, async || {
            is_followed(&master, replicas).await
        })
        .await;
        let port = group.servers[0].port();
        for _ in 0..SENTINELS {
            let started = tokio::task::spawn_blocking(move || sentinel(port).start());
            group
                .sentinels
                .push(started.await.expect("sentinels start"));
        }
        for number in 0..SENTINELS {
            group.until_watched(number, replicas).await;
        }
        group
    }

    /// The keys of a pool that finds this group, as lines of TOML.
    #[must_use]
    pub fn settings(&self) -> String {
        let places = self.sentinels.iter().map(|one| one.address().to_string());
        let places: Vec<String> = places.collect();
        format!(
            "sentinels = {places:?}\nmaster_name = \"{MASTER_NAME}\"\npassword = \"{PASSWORD}\"\n\
             sentinel_password = \"{SENTINEL_PASSWORD}\"\n"
        )
    }

    /// The url of a server, password included.
    #[must_use]
    pub fn url(&self, server: usize) -> String {
        format!("redis://:{PASSWORD}@{}", self.servers[server].address())
    }

    /// The number of the server that this sentinel takes for the master.
    ///
    /// # Panics
    /// When the sentinel does not answer.
    pub async fn master_by(&self, sentinel: usize) -> usize {
        let ask = redis::cmd("SENTINEL")
            .arg("GET-MASTER-ADDR-BY-NAME")
            .arg(MASTER_NAME)
            .to_owned();
        let (_, port): (String, u16) = self.ask_sentinel(sentinel, &ask).await.expect("an answer");
        let mut servers = self.servers.iter();
        servers
            .position(|server| server.port() == port)
            .expect("a server of this group")
    }

    /// Waits until the first sentinel takes another server than this one for the master.
    ///
    /// # Panics
    /// When that takes more than a minute.
    pub async fn until_replaced(&self, master: usize) {
        eventually(
            "the sentinels choose another master",
            PATIENCE,
            async || match self.master_by(0).await {
                same if same == master => Err(format!("still {master}")),
                _ => Ok(()),
            },
        )
        .await;
    }

    /// The addresses of the servers that the first sentinel has taken for the master, one after the
    /// other, since its start.
    #[must_use]
    pub fn masters(&self) -> Vec<String> {
        let log = std::fs::read_to_string(self.sentinels[0].log_path()).unwrap_or_default();
        let switches = log
            .lines()
            .filter_map(|line| line.split_once("+switch-master "));
        switches
            .filter_map(|(_, words)| {
                let mut words = words.split(' ').skip(3);
                Some(format!("{}:{}", words.next()?, words.next()?))
            })
            .collect()
    }

    /// Asks for a failover though nothing is wrong.
    ///
    /// # Panics
    /// When the sentinel refuses for a minute: it does so soon after another failover.
    pub async fn ask_for_failover(&self) {
        let ask = redis::cmd("SENTINEL")
            .arg("FAILOVER")
            .arg(MASTER_NAME)
            .to_owned();
        eventually("a failover is begun", PATIENCE, async || {
            self.ask_sentinel::<String>(0, &ask).await
        })
        .await;
    }

    /// Has this server hold back writes for up to half a minute; reads and replication go on.
    ///
    /// # Panics
    /// When it does not answer.
    pub async fn pause_writes(&self, server: usize) {
        let mut connection = connect(&self.url(server)).await;
        let mut pause = redis::cmd("CLIENT");
        pause.arg("PAUSE").arg(30_000).arg("WRITE");
        pause
            .exec_async(&mut connection)
            .await
            .expect("a server can be paused");
    }

    /// Has this server turn sentinels and clients away with another password. Subscribers that it has
    /// stay, and are answered.
    ///
    /// # Panics
    /// When it does not answer.
    pub async fn lock_out(&self, server: usize) {
        let mut connection = connect(&self.url(server)).await;
        let mut commands = redis::pipe();
        commands
            .cmd("CONFIG")
            .arg("SET")
            .arg("requirepass")
            .arg("another")
            .cmd("CLIENT")
            .arg("KILL")
            .arg("TYPE")
            .arg("normal");
        commands
            .exec_async(&mut connection)
            .await
            .expect("a server can lock out");
    }

    /// Waits until all that this server was told so far has reached so many replicas. What was
    /// acknowledged before the call is in their memory then.
    ///
    /// # Panics
    /// When that takes more than a minute.
    pub async fn until_replicated(&self, master: usize, replicas: usize) {
        let mut connection = connect(&self.url(master)).await;
        let mut write = redis::cmd("SET");
        write.arg("a-write-to-wait-for").arg("x");
        write
            .exec_async(&mut connection)
            .await
            .expect("a master takes writes");
        let mut wait = redis::cmd("WAIT");
        wait.arg(replicas).arg(0);
        let reached: usize = wait
            .query_async(&mut connection)
            .await
            .expect("WAIT is answered");
        assert!(reached >= replicas);
    }

    /// Waits until so many replicas follow the master that the first sentinel names, and have all its
    /// data.
    ///
    /// # Panics
    /// When that takes more than a minute.
    pub async fn until_in_sync(&self, replicas: usize) {
        eventually("replicas follow", PATIENCE, async || {
            let master = self.url(self.master_by(0).await);
            is_followed(&master, replicas).await
        })
        .await;
    }

    async fn until_watched(&self, sentinel: usize, replicas: usize) {
        let ask = redis::cmd("SENTINEL")
            .arg("MASTER")
            .arg(MASTER_NAME)
            .to_owned();
        let others = (SENTINELS - 1).to_string();
        let replicas = replicas.to_string();
        eventually("a sentinel knows all", PATIENCE, async || {
            let state: Vec<(String, String)> = self.ask_sentinel(sentinel, &ask).await?;
            let is = |field: &str, value: &str| {
                state
                    .iter()
                    .any(|(name, now)| name == field && now == value)
            };
            match is("num-slaves", &replicas) && is("num-other-sentinels", &others) {
                true => Ok(()),
                false => Err(format!("{state:?}")),
            }
        })
        .await;
    }

    async fn ask_sentinel<T: FromRedisValue>(
        &self,
        sentinel: usize,
        command: &redis::Cmd,
    ) -> Result<T, String> {
        let address = self.sentinels[sentinel].address();
        let url = format!("redis://:{SENTINEL_PASSWORD}@{address}");
        let mut connection = try_connect(&url).await.map_err(text)?;
        command.query_async(&mut connection).await.map_err(text)
    }
}

fn server() -> RedisOptions {
    RedisOptions::new()
        .setting("requirepass", PASSWORD)
        .setting("masterauth", PASSWORD)
        .setting("repl-diskless-sync-delay", "0")
}

fn sentinel(port: u16) -> RedisOptions {
    [
        format!("monitor {MASTER_NAME} 127.0.0.1 {port} {QUORUM}"),
        format!("auth-pass {MASTER_NAME} {PASSWORD}"),
        format!("down-after-milliseconds {MASTER_NAME} {DOWN_AFTER_MS}"),
        format!("failover-timeout {MASTER_NAME} {FAILOVER_TIMEOUT_MS}"),
        format!("parallel-syncs {MASTER_NAME} 2"),
    ]
    .iter()
    .fold(RedisOptions::sentinel(), |options, line| {
        options.setting("sentinel", line)
    })
    .setting("requirepass", SENTINEL_PASSWORD)
}

async fn connect(url: &str) -> MultiplexedConnection {
    try_connect(url).await.expect("redis answers")
}

async fn try_connect(url: &str) -> redis::RedisResult<MultiplexedConnection> {
    // What is waited for may take longer than the client would wait by itself.
    let config = redis::AsyncConnectionConfig::new().set_response_timeout(Some(PATIENCE));
    let client = Client::open(url)?;
    client
        .get_multiplexed_async_connection_with_config(&config)
        .await
}

/// Whether so many replicas follow this server; otherwise what it says about itself.
async fn is_followed(url: &str, replicas: usize) -> Result<(), String> {
    let mut connection = try_connect(url).await.map_err(text)?;
    let mut ask = redis::cmd("INFO");
    ask.arg("replication");
    let info: String = ask.query_async(&mut connection).await.map_err(text)?;
    match info.matches("state=online").count() {
        online if online == replicas => Ok(()),
        _ => Err(info),
    }
}

fn text(error: impl Display) -> String {
    error.to_string()
}
