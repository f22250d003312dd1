//! A master, its replicas, and sentinels that monitor them.

use std::fmt::Display;
use std::time::Duration;

use redis::aio::MultiplexedConnection;
use redis::{Client, FromRedisValue};
use tidegate_local_redis::RedisServer;

use crate::eventually::eventually;
use crate::redis_server::RedisOptions;

/// Name of the master in the sentinels.
pub const MASTER_NAME: &str = "tide";
pub const PASSWORD: &str = "sesame-of-the-servers";
pub const SENTINEL_PASSWORD: &str = "sesame-of-the-sentinels";

const SENTINELS: usize = 3;
const QUORUM: usize = 2;
/// `down-after-milliseconds`: a server that is silent for so long counts as down.
const DOWN_AFTER_MS: u64 = 1500;
const FAILOVER_TIMEOUT_MS: u64 = 4000;
/// Time limit of replication and of decisions of the sentinels.
const PATIENCE: Duration = Duration::from_secs(60);

/// Servers and sentinels with passwords, all private to one test.
#[derive(Debug)]
pub struct SentinelGroup {
    /// The sentinels, which are dropped first.
    pub sentinels: Vec<RedisServer>,
    /// The servers. The first is the initial master.
    pub servers: Vec<RedisServer>,
}

impl SentinelGroup {
    /// Starts a master with `replicas` replicas, and three sentinels; waits until all know each
    /// other.
    ///
    /// # Panics
    /// If that takes too long.
    pub async fn start(replicas: usize) -> Self {
        let started = tokio::task::spawn_blocking(move || {
            let master = server_options().start();
            let follows = format!("127.0.0.1 {}", master.port());
            let mut servers = vec![master];
            servers.extend(
                (0..replicas).map(|_| server_options().setting("replicaof", &follows).start()),
            );
            servers
        });
        let mut group = Self {
            servers: started.await.expect("servers start"),
            sentinels: Vec::new(),
        };
        let master = group.url(0);
        eventually("replicas follow", PATIENCE, async || {
            check_replicas(&master, replicas).await
        })
        .await;
        let port = group.servers[0].port();
        for _ in 0..SENTINELS {
            let started = tokio::task::spawn_blocking(move || sentinel_options(port).start());
            group
                .sentinels
                .push(started.await.expect("sentinels start"));
        }
        for number in 0..SENTINELS {
            group.wait_until_monitored(number, replicas).await;
        }
        group
    }

    /// Returns the settings of a pool on this group, as TOML.
    #[must_use]
    pub fn settings(&self) -> String {
        let addresses = self.sentinels.iter().map(|one| one.address().to_string());
        let addresses: Vec<String> = addresses.collect();
        format!(
            "sentinels = {addresses:?}\nmaster_name = \"{MASTER_NAME}\"\npassword = \"{PASSWORD}\"\n\
             sentinel_password = \"{SENTINEL_PASSWORD}\"\n"
        )
    }

    /// Returns the URL of a server, including the password.
    #[must_use]
    pub fn url(&self, server: usize) -> String {
        format!("redis://:{PASSWORD}@{}", self.servers[server].address())
    }

    /// Returns the number of the server that this sentinel reports as the master.
    ///
    /// # Panics
    /// If the sentinel does not answer.
    pub async fn master_seen_by(&self, sentinel: usize) -> usize {
        let ask = redis::cmd("SENTINEL")
            .arg("GET-MASTER-ADDR-BY-NAME")
            .arg(MASTER_NAME)
            .to_owned();
        let (_, port): (String, u16) = self
            .query_sentinel(sentinel, &ask)
            .await
            .expect("an answer");
        let mut servers = self.servers.iter();
        servers
            .position(|server| server.port() == port)
            .expect("a server of this group")
    }

    /// Waits until the first sentinel reports another server than `master` as the master.
    ///
    /// # Panics
    /// If that takes more than a minute.
    pub async fn wait_until_replaced(&self, master: usize) {
        eventually(
            "the sentinels choose another master",
            PATIENCE,
            async || match self.master_seen_by(0).await {
                same if same == master => Err(format!("still {master}")),
                _ => Ok(()),
            },
        )
        .await;
    }

    /// Returns the addresses of the masters that the first sentinel has switched to since its start,
    /// in order.
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

    /// Requests a failover of a healthy master.
    ///
    /// # Panics
    /// If the sentinel refuses for a minute. It refuses right after another failover.
    pub async fn request_failover(&self) {
        let ask = redis::cmd("SENTINEL")
            .arg("FAILOVER")
            .arg(MASTER_NAME)
            .to_owned();
        eventually("a failover is begun", PATIENCE, async || {
            self.query_sentinel::<String>(0, &ask).await
        })
        .await;
    }

    /// Makes this server block writes for up to 30 s (`CLIENT PAUSE … WRITE`); reads and replication
    /// continue.
    ///
    /// # Panics
    /// If it does not answer.
    pub async fn pause_writes(&self, server: usize) {
        let mut connection = connect(&self.url(server)).await;
        let mut pause = redis::cmd("CLIENT");
        pause.arg("PAUSE").arg(30_000).arg("WRITE");
        pause
            .exec_async(&mut connection)
            .await
            .expect("a server can be paused");
    }

    /// Changes the password of this server and closes normal connections, so that sentinels and
    /// clients cannot log in. Existing subscribers stay connected, and are answered.
    ///
    /// # Panics
    /// If it does not answer.
    pub async fn deny_logins(&self, server: usize) {
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

    /// Lets no sentinel make this server a replica.
    ///
    /// # Panics
    /// If it does not answer.
    pub async fn refuse_to_follow(&self, server: usize) {
        let mut connection = connect(&self.url(server)).await;
        let mut rights = redis::cmd("ACL");
        rights
            .arg("SETUSER")
            .arg("default")
            .arg(&["-replicaof", "-slaveof"]);
        rights
            .exec_async(&mut connection)
            .await
            .expect("a server changes the rights of a user");
    }

    /// Waits until `replicas` replicas have received every write that this server had when this was
    /// called.
    ///
    /// # Panics
    /// If that takes more than a minute.
    pub async fn wait_until_replicated(&self, master: usize, replicas: usize) {
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

    /// Waits until `replicas` replicas of the master that the first sentinel reports are online.
    ///
    /// # Panics
    /// If that takes more than a minute.
    pub async fn wait_until_in_sync(&self, replicas: usize) {
        eventually("replicas follow", PATIENCE, async || {
            let master = self.url(self.master_seen_by(0).await);
            check_replicas(&master, replicas).await
        })
        .await;
    }

    async fn wait_until_monitored(&self, sentinel: usize, replicas: usize) {
        let ask = redis::cmd("SENTINEL")
            .arg("MASTER")
            .arg(MASTER_NAME)
            .to_owned();
        let others = (SENTINELS - 1).to_string();
        let replicas = replicas.to_string();
        eventually("a sentinel knows all", PATIENCE, async || {
            let state: Vec<(String, String)> = self.query_sentinel(sentinel, &ask).await?;
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

    async fn query_sentinel<T: FromRedisValue>(
        &self,
        sentinel: usize,
        command: &redis::Cmd,
    ) -> Result<T, String> {
        let address = self.sentinels[sentinel].address();
        let url = format!("redis://:{SENTINEL_PASSWORD}@{address}");
        let mut connection = try_connect(&url).await.map_err(error_text)?;
        command
            .query_async(&mut connection)
            .await
            .map_err(error_text)
    }
}

fn server_options() -> RedisOptions {
    RedisOptions::new()
        .setting("requirepass", PASSWORD)
        .setting("masterauth", PASSWORD)
        .setting("repl-diskless-sync-delay", "0")
}

fn sentinel_options(port: u16) -> RedisOptions {
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
    // Longer than the default timeout of the client, which is too short for a failover.
    let config = redis::AsyncConnectionConfig::new().set_response_timeout(Some(PATIENCE));
    let client = Client::open(url)?;
    client
        .get_multiplexed_async_connection_with_config(&config)
        .await
}

/// Checks that `replicas` replicas of this server are online. The error is its INFO.
async fn check_replicas(url: &str, replicas: usize) -> Result<(), String> {
    let mut connection = try_connect(url).await.map_err(error_text)?;
    let mut ask = redis::cmd("INFO");
    ask.arg("replication");
    let info: String = ask.query_async(&mut connection).await.map_err(error_text)?;
    match info.matches("state=online").count() {
        online if online == replicas => Ok(()),
        _ => Err(info),
    }
}

fn error_text(error: impl Display) -> String {
    error.to_string()
}
