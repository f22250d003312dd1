//! Causes faults of a running Redis by its own commands.

use std::collections::HashMap;
use std::net::{Ipv4Addr, SocketAddr};
use std::time::{Duration, Instant};

use redis::aio::MultiplexedConnection;
use redis::{AsyncConnectionConfig, Client, Cmd, FromRedisValue, RedisResult};

const ANSWER_LIMIT: Duration = Duration::from_secs(60);
const POLL_PAUSE: Duration = Duration::from_millis(10);

/// An address at which no server listens.
pub const NO_SERVER: SocketAddr = SocketAddr::new(std::net::IpAddr::V4(Ipv4Addr::LOCALHOST), 1);

/// Connects to a Redis, and waits up to a minute for the connection and for each answer: the half a second that is the
/// default of the client is too short on a loaded machine.
///
/// # Errors
/// The server does not accept the connection.
pub async fn connect_to_redis(client: &Client) -> RedisResult<MultiplexedConnection> {
    let config = AsyncConnectionConfig::new()
        .set_connection_timeout(Some(ANSWER_LIMIT))
        .set_response_timeout(Some(ANSWER_LIMIT));
    client
        .get_multiplexed_async_connection_with_config(&config)
        .await
}

/// A separate connection to a Redis, without a proxy.
#[derive(Debug, Clone)]
pub struct RedisControl(MultiplexedConnection);

impl RedisControl {
    /// Connects to the Redis at `url`.
    ///
    /// # Panics
    /// If it does not answer.
    pub async fn connect(url: &str) -> Self {
        let client = Client::open(url).expect("a redis url");
        Self(connect_to_redis(&client).await.expect("redis answers"))
    }

    /// Sets a field of a hash (`HSET`), as an operator with `redis-cli` would.
    ///
    /// # Panics
    /// If it does not answer.
    pub async fn set_field(&mut self, key: &str, field: &str, value: &str) {
        let mut set = redis::cmd("HSET");
        let _: i64 = self.query(set.arg(key).arg(field).arg(value)).await;
    }

    /// Deletes a field of a hash (`HDEL`), and returns whether there was one.
    ///
    /// # Panics
    /// If it does not answer.
    pub async fn delete_field(&mut self, key: &str, field: &str) -> bool {
        self.query(redis::cmd("HDEL").arg(key).arg(field)).await
    }

    /// The names of all fields of a hash.
    ///
    /// # Panics
    /// If it does not answer.
    pub async fn field_names(&mut self, key: &str) -> Vec<String> {
        self.query(redis::cmd("HKEYS").arg(key)).await
    }

    /// Flushes the script cache (`SCRIPT FLUSH`).
    ///
    /// # Panics
    /// If it does not answer.
    pub async fn flush_scripts(&mut self) {
        let _: String = self.query(redis::cmd("SCRIPT").arg("FLUSH")).await;
    }

    /// Closes every connection that has subscriptions (`CLIENT KILL TYPE pubsub`), and returns their
    /// number. Messages until the subscribers are back are lost.
    ///
    /// # Panics
    /// If it does not answer.
    pub async fn end_subscriptions(&mut self) -> usize {
        let mut kill = redis::cmd("CLIENT");
        self.query(kill.arg("KILL").arg("TYPE").arg("pubsub")).await
    }

    /// Makes it answer no client for this time (`CLIENT PAUSE … ALL`).
    ///
    /// # Panics
    /// If it does not answer.
    pub async fn pause_clients(&mut self, time: Duration) {
        let mut pause = redis::cmd("CLIENT");
        let time_ms = u64::try_from(time.as_millis()).unwrap_or(u64::MAX);
        let _: String = self.query(pause.arg("PAUSE").arg(time_ms).arg("ALL")).await;
    }

    /// Makes it hold back writes for this time (`CLIENT PAUSE … WRITE`), or until it becomes a replica.
    ///
    /// # Panics
    /// If it does not answer.
    pub async fn pause_writes(&mut self, time: Duration) {
        let mut pause = redis::cmd("CLIENT");
        let time_ms = u64::try_from(time.as_millis()).unwrap_or(u64::MAX);
        let _: String = self
            .query(pause.arg("PAUSE").arg(time_ms).arg("WRITE"))
            .await;
    }

    /// Ends a pause (`CLIENT UNPAUSE`).
    ///
    /// # Panics
    /// If it does not answer.
    pub async fn resume_clients(&mut self) {
        let _: String = self.query(redis::cmd("CLIENT").arg("UNPAUSE")).await;
    }

    /// Returns the position in its replication stream.
    ///
    /// # Panics
    /// If it does not answer.
    pub async fn replication_offset(&mut self) -> u64 {
        let info = self.info().await;
        // A replica reports the received bytes as `slave_repl_offset`.
        let offset = info
            .get("slave_repl_offset")
            .or(info.get("master_repl_offset"));
        let offset = offset.and_then(|offset| offset.parse().ok());
        offset.expect("redis reports its offset")
    }

    /// Waits until it has this position in its replication stream.
    ///
    /// # Panics
    /// If that takes more than a minute.
    pub async fn wait_until_at(&mut self, offset: u64) {
        let deadline = Instant::now() + ANSWER_LIMIT;
        while self.replication_offset().await < offset {
            assert!(Instant::now() < deadline, "the replica stays behind");
            tokio::time::sleep(POLL_PAUSE).await;
        }
    }

    /// Sets `maxmemory` to the used memory plus `room_bytes`; `None` removes the limit. Without room the server stays
    /// full: the limit is below the used memory of any server, since the used memory also falls, such as when a buffer
    /// of a client shrinks.
    ///
    /// # Panics
    /// If it does not answer.
    pub async fn limit_memory(&mut self, room_bytes: Option<u64>) {
        let maximum = match room_bytes {
            None => 0,
            Some(0) => 1,
            Some(room) => self.used_memory().await + room,
        };
        let mut set = redis::cmd("CONFIG");
        let _: String = self
            .query(set.arg("SET").arg("maxmemory").arg(maximum))
            .await;
    }

    /// Changes a setting while it runs (`CONFIG SET`).
    ///
    /// # Panics
    /// If it does not answer, or has no such setting.
    pub async fn configure(&mut self, setting: &str, value: &str) {
        let mut set = redis::cmd("CONFIG");
        let _: String = self.query(set.arg("SET").arg(setting).arg(value)).await;
    }

    /// Disables these users (`ACL SETUSER … off`), and closes their connections.
    ///
    /// # Panics
    /// If it does not answer.
    pub async fn disable_users(&mut self, users: &[&str]) {
        self.set_users(users, "off").await;
        for user in users {
            let mut kill = redis::cmd("CLIENT");
            let _: usize = self.query(kill.arg("KILL").arg("USER").arg(user)).await;
        }
    }

    /// Enables these users again.
    ///
    /// # Panics
    /// If it does not answer.
    pub async fn enable_users(&mut self, users: &[&str]) {
        self.set_users(users, "on").await;
    }

    async fn set_users(&mut self, users: &[&str], rule: &str) {
        for user in users {
            let mut set = redis::cmd("ACL");
            let _: String = self.query(set.arg("SETUSER").arg(user).arg(rule)).await;
        }
    }

    /// Makes it close connections that are idle for `idle_s` seconds (`timeout`); 0 = never.
    ///
    /// # Panics
    /// If it does not answer.
    pub async fn set_idle_timeout_s(&mut self, idle_s: u64) {
        let mut set = redis::cmd("CONFIG");
        let _: String = self.query(set.arg("SET").arg("timeout").arg(idle_s)).await;
    }

    /// Returns the fields of `INFO`, such as `used_memory` and `connected_clients`.
    ///
    /// # Panics
    /// If it does not answer.
    pub async fn info(&mut self) -> HashMap<String, String> {
        let info: String = self.query(&redis::cmd("INFO")).await;
        let fields = info.lines().filter_map(|line| line.split_once(':'));
        fields
            .map(|(name, value)| (name.to_owned(), value.trim().to_owned()))
            .collect()
    }

    /// Returns the memory that it uses, in bytes (`used_memory`).
    ///
    /// # Panics
    /// If it does not answer.
    pub async fn used_memory(&mut self) -> u64 {
        let info = self.info().await;
        let used = info.get("used_memory").and_then(|used| used.parse().ok());
        used.expect("redis reports its memory")
    }

    /// Reads a string.
    ///
    /// # Panics
    /// If there is no such key.
    pub async fn get(&mut self, key: &str) -> String {
        self.query(&redis::Cmd::get(key)).await
    }

    /// Sets a string.
    ///
    /// # Panics
    /// If Redis refuses it.
    pub async fn set(&mut self, key: &str, value: &str) {
        let _: String = self.query(&redis::Cmd::set(key, value)).await;
    }

    /// Renames a key.
    ///
    /// # Panics
    /// If there is no such key.
    pub async fn rename(&mut self, from: &str, to: &str) {
        let _: String = self.query(redis::cmd("RENAME").arg(from).arg(to)).await;
    }

    /// Makes it a replica of this server (`REPLICAOF`), or a master. A replica of [`NO_SERVER`] keeps its data.
    ///
    /// # Panics
    /// If it does not answer.
    pub async fn replicate(&mut self, master: Option<SocketAddr>) {
        let (host, port) = match master {
            Some(master) => (master.ip().to_string(), master.port().to_string()),
            None => ("NO".to_owned(), "ONE".to_owned()),
        };
        let _: String = self
            .query(redis::cmd("REPLICAOF").arg(host).arg(port))
            .await;
    }

    /// Waits until it is a replica that has all data of its master.
    ///
    /// # Panics
    /// If that takes more than a minute.
    pub async fn wait_until_in_sync(&mut self) {
        let deadline = Instant::now() + ANSWER_LIMIT;
        loop {
            let info = self.info().await;
            let is_up = info.get("master_link_status").is_some_and(|it| it == "up");
            if is_up
                && info
                    .get("master_sync_in_progress")
                    .is_some_and(|it| it == "0")
            {
                return;
            }
            assert!(
                Instant::now() < deadline,
                "the replica is not in sync: {info:?}"
            );
            tokio::time::sleep(POLL_PAUSE).await;
        }
    }

    /// Returns the number of connections that have subscriptions.
    ///
    /// # Panics
    /// If it does not answer.
    pub async fn subscribers(&mut self) -> usize {
        let mut list = redis::cmd("CLIENT");
        let list: String = self.query(list.arg("LIST").arg("TYPE").arg("pubsub")).await;
        list.lines().count()
    }

    /// Returns the number of connections of clients, except for its own connection and connections of replication.
    ///
    /// # Panics
    /// If it does not answer.
    pub async fn client_connections(&mut self) -> usize {
        let mut connections = 0;
        for kind in ["normal", "pubsub"] {
            let mut list = redis::cmd("CLIENT");
            let list: String = self.query(list.arg("LIST").arg("TYPE").arg(kind)).await;
            let others = list
                .lines()
                .filter(|line| !line.contains("cmd=client|list"));
            connections += others.count();
        }
        connections
    }

    async fn query<T: FromRedisValue>(&mut self, command: &Cmd) -> T {
        let answer = command.query_async(&mut self.0).await;
        answer.unwrap_or_else(|error| panic!("a Redis command failed: {error}"))
    }
}
