//! A Redis Cluster: primaries, their replicas, and slots that move.

mod members;
mod slots;

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use redis::aio::MultiplexedConnection;
use redis::{Client, FromRedisValue};
use tidegate_local_redis::RedisServer;

use crate::eventually::eventually;
use crate::redis_server::RedisOptions;
use crate::world;

pub use slots::SlotMove;

/// The password of all servers.
pub const PASSWORD: &str = "sesame-of-the-cluster";

const PRIMARIES: usize = 3;
/// A server that is silent for so long is taken for dead, unless a test asks for another time.
const NODE_TIMEOUT_MS: u32 = 1500;
/// How long replication, or an agreement of servers, may take.
const PATIENCE: Duration = Duration::from_secs(60);

/// Three primaries and a replica of each, with a password, private to one test.
#[derive(Debug)]
pub struct ClusterGroup {
    /// The servers: first those that began as primaries.
    pub servers: Vec<RedisServer>,
    /// Those that stand still: nobody waits for an answer of theirs.
    paused: BTreeSet<usize>,
}

/// A node as another one sees it.
#[derive(Debug, Clone)]
struct Node {
    id: String,
    port: u16,
    is_primary: bool,
    is_away: bool,
    is_ours: bool,
    primary: String,
    slots: Vec<(u16, u16)>,
}

impl ClusterGroup {
    /// Starts all servers and waits until the cluster takes calls and the replicas follow.
    ///
    /// # Panics
    /// When that takes too long.
    pub async fn start() -> Self {
        Self::start_with(RedisOptions::new(), NODE_TIMEOUT_MS).await
    }

    /// The same, of servers with these options, that take one of them for dead when it is silent for so
    /// long.
    ///
    /// # Panics
    /// When that takes too long.
    pub async fn start_with(options: RedisOptions, node_timeout_ms: u32) -> Self {
        let options = options
            .setting("requirepass", PASSWORD)
            .setting("masterauth", PASSWORD)
            .setting("repl-diskless-sync-delay", "0")
            .setting("cluster-node-timeout", &node_timeout_ms.to_string());
        let starting = tokio::task::spawn_blocking(move || options.start_cluster(PRIMARIES));
        let cluster = starting.await.expect("servers start");
        Self {
            servers: cluster.servers,
            paused: BTreeSet::new(),
        }
    }

    /// The keys of a pool that finds this cluster, as lines of TOML. Two nodes are named, the last one
    /// among them; the others are found.
    #[must_use]
    pub fn settings(&self) -> String {
        let named = [self.servers.last(), self.servers.first()];
        let named = named.into_iter().flatten().map(RedisServer::url);
        let named: Vec<String> = named.collect();
        format!("cluster = {named:?}\npassword = \"{PASSWORD}\"\n")
    }

    /// The url of a server, password included.
    #[must_use]
    pub fn url(&self, server: usize) -> String {
        format!("redis://:{PASSWORD}@{}", self.servers[server].address())
    }

    /// The servers that are primaries and run, as the others see them.
    ///
    /// # Panics
    /// When no server answers.
    pub async fn primaries(&self) -> Vec<usize> {
        let nodes = self.nodes().await;
        let primaries = nodes.values().filter(|node| node.is_primary);
        primaries
            .filter(|node| !node.slots.is_empty())
            .filter_map(|node| self.number(node.port))
            .collect()
    }

    /// The replica of a primary. A server that was away may not follow it again yet: that is waited for.
    ///
    /// # Panics
    /// When it has none within a minute.
    pub async fn replica_of(&self, primary: usize) -> usize {
        let port = self.servers[primary].port();
        eventually("a primary has a replica", PATIENCE, async || {
            let nodes = self.nodes().await;
            let id = nodes.get(&port).map(|node| &node.id);
            let mut others = nodes.values().filter(|node| !node.is_away);
            let replica = others.find(|node| Some(&node.primary) == id);
            let replica = replica.and_then(|node| self.number(node.port));
            replica.ok_or_else(|| format!("{nodes:?}"))
        })
        .await
    }

    /// Stops a server in its tracks: its connections stay open, nothing is answered.
    ///
    /// # Panics
    /// When it does not run.
    pub fn pause(&mut self, server: usize) {
        let paused = self.servers[server].pause();
        paused.unwrap_or_else(|error| panic!("{error}"));
        self.paused.insert(server);
    }

    /// Lets a server go on after [`Self::pause`].
    ///
    /// # Panics
    /// When it does not run.
    pub fn resume(&mut self, server: usize) {
        let resumed = self.servers[server].resume();
        resumed.unwrap_or_else(|error| panic!("{error}"));
        self.paused.remove(&server);
    }

    /// Has a replica take the place of its primary, with the agreement of that one: nothing is lost.
    ///
    /// # Panics
    /// When it has not done so within a minute.
    pub async fn ask_for_failover(&self, replica: usize) {
        let ask = redis::cmd("CLUSTER").arg("FAILOVER").to_owned();
        eventually("a failover is begun", PATIENCE, async || {
            self.ask::<String>(replica, &ask).await
        })
        .await;
        self.until_primary(replica).await;
    }

    /// Waits until a server is a primary, and everybody who runs agrees.
    ///
    /// # Panics
    /// When that takes more than a minute.
    pub async fn until_primary(&self, server: usize) {
        let port = self.servers[server].port();
        eventually("a replica is promoted", PATIENCE, async || {
            for asked in self.running() {
                let nodes = self.nodes_by(asked).await?;
                let is_primary = |node: &Node| node.port == port && node.is_primary;
                if !nodes.values().any(is_primary) {
                    return Err(format!("{nodes:?}"));
                }
            }
            Ok(())
        })
        .await;
    }

    /// Waits until a server follows a primary, and has all its data.
    ///
    /// # Panics
    /// When that takes more than a minute.
    pub async fn until_replica(&self, server: usize) {
        let ask = redis::cmd("INFO").arg("replication").to_owned();
        eventually("a server is a replica", PATIENCE, async || {
            let role: String = self.ask(server, &ask).await?;
            match role.contains("role:slave") && role.contains("master_link_status:up") {
                true => Ok(()),
                false => Err(role),
            }
        })
        .await;
    }

    /// Waits until every server that runs takes calls, and every replica has all data of its primary.
    ///
    /// # Panics
    /// When that takes more than a minute.
    pub async fn until_in_sync(&self) {
        let (state, replication) = (
            redis::cmd("CLUSTER").arg("INFO").to_owned(),
            redis::cmd("INFO").arg("replication").to_owned(),
        );
        eventually("the cluster is whole", PATIENCE, async || {
            for server in self.running() {
                let told: String = self.ask(server, &state).await?;
                let role: String = self.ask(server, &replication).await?;
                let is_in_sync = match role.contains("role:slave") {
                    true => role.contains("master_link_status:up"),
                    false => role.contains("state=online") || !role.contains("slave0"),
                };
                if !told.contains("cluster_state:ok") || !is_in_sync {
                    return Err(format!("{told}\n{role}"));
                }
            }
            Ok(())
        })
        .await;
    }

    /// Waits until all that the primaries were told so far has reached their replicas. What was
    /// acknowledged before the call is in memory there then.
    ///
    /// # Panics
    /// When that takes more than a minute.
    pub async fn until_replicated(&self) {
        for primary in self.primaries().await {
            let replica = self.replica_of(primary).await;
            let told = self.offset(primary, "master_repl_offset:").await;
            let told = told.expect("a primary counts what it was told");
            eventually("a replica has heard all", PATIENCE, async || {
                match self.offset(replica, "slave_repl_offset:").await? {
                    heard if heard >= told => Ok(()),
                    heard => Err(format!("{heard} of {told}")),
                }
            })
            .await;
        }
    }

    async fn offset(&self, server: usize, field: &str) -> Result<u64, String> {
        let ask = redis::cmd("INFO").arg("replication").to_owned();
        let told: String = self.ask(server, &ask).await?;
        let offset = told.lines().find_map(|line| line.strip_prefix(field));
        let offset = offset.and_then(|text| text.trim().parse().ok());
        offset.ok_or(told)
    }

    /// The urls of the primaries.
    ///
    /// # Panics
    /// When no server answers.
    pub async fn primary_urls(&self) -> Vec<String> {
        let primaries = self.primaries().await;
        primaries.into_iter().map(|one| self.url(one)).collect()
    }

    /// Checks the buckets of every primary as [`world::check`] does.
    ///
    /// # Panics
    /// When something is amiss; the message lists it.
    pub async fn check_world(&self) {
        for url in self.primary_urls().await {
            world::check(&url).await;
        }
    }

    /// How many jobs there are, by state, over all primaries.
    ///
    /// # Panics
    /// When one of them cannot be read.
    pub async fn totals(&self) -> world::Totals {
        let mut all = world::Totals::default();
        for url in self.primary_urls().await {
            all += world::totals(&url).await;
        }
        all
    }

    /// How many calls of a command a server had.
    ///
    /// # Panics
    /// When it does not answer.
    pub async fn calls(&self, server: usize, command: &str) -> u64 {
        let ask = redis::cmd("INFO").arg("commandstats").to_owned();
        let told: String = self.ask(server, &ask).await.expect("a server answers");
        let begin = format!("cmdstat_{command}:calls=");
        let calls = told.lines().find_map(|line| line.strip_prefix(&begin));
        let calls = calls.and_then(|rest| rest.split(',').next()?.parse().ok());
        calls.unwrap_or_default()
    }

    /// Has a server forget all scripts.
    ///
    /// # Panics
    /// When it does not answer.
    pub async fn forget_scripts(&self, server: usize) {
        let flush = redis::cmd("SCRIPT").arg("FLUSH").to_owned();
        let flushed = self.ask::<String>(server, &flush).await;
        flushed.expect("scripts are forgotten");
    }

    /// Gives a server a user, by a rule as in `users.acl` without its first word.
    ///
    /// # Panics
    /// When it refuses.
    pub async fn add_user(&self, server: usize, rule: &str) {
        let set = redis::cmd("ACL")
            .arg("SETUSER")
            .arg(rule.split(' ').collect::<Vec<_>>())
            .to_owned();
        self.ask::<String>(server, &set)
            .await
            .expect("a user is set");
    }

    /// The last lines of every server's log.
    #[must_use]
    pub fn logs(&self) -> String {
        self.servers.iter().map(RedisServer::log_tail).collect()
    }

    fn running(&self) -> impl Iterator<Item = usize> {
        let runs =
            |number: &usize| self.servers[*number].pid().is_some() && !self.paused.contains(number);
        (0..self.servers.len()).filter(runs)
    }

    fn number(&self, port: u16) -> Option<usize> {
        self.servers.iter().position(|server| server.port() == port)
    }

    /// The nodes by their ports, as the first server that answers sees them.
    async fn nodes(&self) -> BTreeMap<u16, Node> {
        let mut said = String::new();
        for server in self.running() {
            match self.nodes_by(server).await {
                Ok(nodes) => return nodes,
                Err(error) => said = error,
            }
        }
        panic!("no server answers: {said}");
    }

    async fn nodes_by(&self, server: usize) -> Result<BTreeMap<u16, Node>, String> {
        let ask = redis::cmd("CLUSTER").arg("NODES").to_owned();
        let text: String = self.ask(server, &ask).await?;
        let nodes = text.lines().filter_map(Node::read);
        Ok(nodes.map(|node| (node.port, node)).collect())
    }

    async fn ask<T: FromRedisValue>(
        &self,
        server: usize,
        command: &redis::Cmd,
    ) -> Result<T, String> {
        let text = |error: redis::RedisError| error.to_string();
        let mut connection = connect(&self.url(server)).await.map_err(text)?;
        command.query_async(&mut connection).await.map_err(text)
    }
}

impl Node {
    /// Reads a line of `CLUSTER NODES`: id, place, flags, primary, ping, pong, epoch, link, slots.
    fn read(line: &str) -> Option<Self> {
        let words: Vec<&str> = line.split(' ').collect();
        let [id, place, flags, primary, _, _, _, _, slots @ ..] = words.as_slice() else {
            return None;
        };
        let port = place.split('@').next()?.rsplit(':').next()?.parse().ok()?;
        let flags: Vec<&str> = flags.split(',').collect();
        let is_away = flags.contains(&"fail");
        let range = |word: &&str| {
            // A slot on its way stands in brackets.
            let (first, last) = word.split_once('-').unwrap_or((word, word));
            Some((first.parse().ok()?, last.parse().ok()?))
        };
        Some(Self {
            id: (*id).to_owned(),
            port,
            is_primary: flags.contains(&"master") && !is_away,
            is_away,
            is_ours: flags.contains(&"myself"),
            primary: (*primary).to_owned(),
            slots: slots.iter().filter_map(range).collect(),
        })
    }
}

async fn connect(url: &str) -> redis::RedisResult<MultiplexedConnection> {
    // What is waited for may take longer than the client would wait by itself.
    let config = redis::AsyncConnectionConfig::new()
        .set_connection_timeout(Some(PATIENCE))
        .set_response_timeout(Some(PATIENCE));
    let client = Client::open(url)?;
    client
        .get_multiplexed_async_connection_with_config(&config)
        .await
}
