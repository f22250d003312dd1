//! What an operator, or an accident, does to a running Redis by its own commands.

use std::time::Duration;

use redis::aio::MultiplexedConnection;
use redis::{Client, Cmd, FromRedisValue};

const ANSWER_LIMIT: Duration = Duration::from_secs(60);

/// A connection of its own to a Redis, past any proxy.
#[derive(Debug, Clone)]
pub struct RedisControl(MultiplexedConnection);

impl RedisControl {
    /// Connects to the Redis at `url`.
    ///
    /// # Panics
    /// When it does not answer.
    pub async fn of(url: &str) -> Self {
        let client = Client::open(url).expect("a redis url");
        let connecting = client.get_multiplexed_async_connection();
        let mut connection = connecting.await.expect("redis answers");
        // A loaded machine may take long; by default half a second is too long.
        connection.set_response_timeout(ANSWER_LIMIT);
        Self(connection)
    }

    /// Has it forget all scripts (`SCRIPT FLUSH`).
    ///
    /// # Panics
    /// When it does not answer.
    pub async fn forget_scripts(&mut self) {
        let _: String = self.ask(redis::cmd("SCRIPT").arg("FLUSH")).await;
    }

    /// Ends every subscription, and answers how many there were. Messages sent until the subscribers are
    /// back are lost.
    ///
    /// # Panics
    /// When it does not answer.
    pub async fn end_subscriptions(&mut self) -> usize {
        let mut kill = redis::cmd("CLIENT");
        self.ask(kill.arg("KILL").arg("TYPE").arg("pubsub")).await
    }

    /// Has it answer nobody for this time (`CLIENT PAUSE … ALL`).
    ///
    /// # Panics
    /// When it does not answer.
    pub async fn answer_nobody_for(&mut self, time: Duration) {
        let mut pause = redis::cmd("CLIENT");
        let time_ms = u64::try_from(time.as_millis()).unwrap_or(u64::MAX);
        let _: String = self.ask(pause.arg("PAUSE").arg(time_ms).arg("ALL")).await;
    }

    /// Sets `maxmemory` to what is used now and so much more; without a room there is no limit any more.
    ///
    /// # Panics
    /// When it does not answer.
    pub async fn limit_memory(&mut self, room_bytes: Option<u64>) {
        let maximum = match room_bytes {
            Some(room) => self.used_memory().await + room,
            None => 0,
        };
        let mut set = redis::cmd("CONFIG");
        let _: String = self.ask(set.arg("SET").arg("maxmemory").arg(maximum)).await;
    }

    /// Refuses these users' logins, and ends their connections.
    ///
    /// # Panics
    /// When it does not answer.
    pub async fn refuse_users(&mut self, users: &[&str]) {
        self.set_users(users, "off").await;
        for user in users {
            let mut kill = redis::cmd("CLIENT");
            let _: usize = self.ask(kill.arg("KILL").arg("USER").arg(user)).await;
        }
    }

    /// Lets these users log in again.
    ///
    /// # Panics
    /// When it does not answer.
    pub async fn admit_users(&mut self, users: &[&str]) {
        self.set_users(users, "on").await;
    }

    async fn set_users(&mut self, users: &[&str], rule: &str) {
        for user in users {
            let mut set = redis::cmd("ACL");
            let _: String = self.ask(set.arg("SETUSER").arg(user).arg(rule)).await;
        }
    }

    /// Has it end connections that are idle for so many seconds; 0 = none.
    ///
    /// # Panics
    /// When it does not answer.
    pub async fn end_idle_after_s(&mut self, idle_s: u64) {
        let mut set = redis::cmd("CONFIG");
        let _: String = self.ask(set.arg("SET").arg("timeout").arg(idle_s)).await;
    }

    async fn used_memory(&mut self) -> u64 {
        let info: String = self.ask(redis::cmd("INFO").arg("memory")).await;
        let lines = &mut info.lines();
        let used = lines.find_map(|line| line.strip_prefix("used_memory:"));
        used.and_then(|used| used.trim().parse().ok())
            .expect("redis tells its memory")
    }

    async fn ask<T: FromRedisValue>(&mut self, command: &Cmd) -> T {
        let answer = command.query_async(&mut self.0).await;
        answer.unwrap_or_else(|error| panic!("redis refused a command: {error}"))
    }
}
