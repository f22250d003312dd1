//! A Redis Cluster for tests: primaries, their replicas, and hash slots that move.

mod members;
mod slots;

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;
use tidegate_core::JobsByState;

use redis::aio::MultiplexedConnection;
use redis::{Client, FromRedisValue};
use tidegate_local_redis::RedisServer;

use crate::consistency;
use crate::eventually::eventually;
use crate::redis_server::RedisOptions;

pub use slots::SlotMove;

/// The password of all servers.
pub const PASSWORD: &str = "sesame-of-the-cluster";

const PRIMARIES: usize = 3;
/// Default `cluster-node-timeout` in ms: a server that is silent for so long counts as failed.
const NODE_TIMEOUT_MS: u32 = 1500;
/// Time limit of replication and of changes of the cluster state.
const PATIENCE: Duration = Duration::from_secs(60);

/// Three primaries and a replica of each, with a password, private to one test.
#[derive(Debug)]
pub struct ClusterGroup {
    /// The servers: first the initial primaries, then their replicas.
    pub servers: Vec<RedisServer>,
    /// Paused servers, which are not queried.
    paused: BTreeSet<usize>,
}

/// A node of the cluster, as another node reports it.
#[derive(Debug, Clone)]
struct ClusterNode {
    id: String,
    port: u16,
    is_primary: bool,
    is_failed: bool,
    is_myself: bool,
    primary: String,
    slots: Vec<(u16, u16)>,
}

impl ClusterGroup {
    /// Starts all servers and waits until the cluster is available and the replicas are in sync.
    ///
    /// # Panics
    /// If that takes too long.
    pub async fn start() -> Self {
        Self::start_with(RedisOptions::new(), NODE_TIMEOUT_MS).await
    }

    /// Like [`Self::start`], with these options and this `cluster-node-timeout` in ms.
    ///
    /// # Panics
    /// If that takes too long.
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

    /// Returns the settings of a pool on this cluster, as TOML. They name the last and the first server;
    /// the daemon discovers the others.
    #[must_use]
    pub fn settings(&self) -> String {
        let named = [self.servers.last(), self.servers.first()];
        let named = named.into_iter().flatten().map(RedisServer::url);
        let named: Vec<String> = named.collect();
        format!("cluster = {named:?}\npassword = \"{PASSWORD}\"\n")
    }

    /// Returns the URL of a server, including the password.
    #[must_use]
    pub fn url(&self, server: usize) -> String {
        format!("redis://:{PASSWORD}@{}", self.servers[server].address())
    }

    /// Returns the primaries that are up and have slots, as the first server that answers reports them.
    ///
    /// # Panics
    /// If no server answers.
    pub async fn primaries(&self) -> Vec<usize> {
        let nodes = self.nodes().await;
        let primaries = nodes.values().filter(|node| node.is_primary);
        primaries
            .filter(|node| !node.slots.is_empty())
            .filter_map(|node| self.server_with_port(node.port))
            .collect()
    }

    /// Returns the replica of a primary. Waits up to a minute for one, since a restarted server may not
    /// replicate yet.
    ///
    /// # Panics
    /// If it has none within a minute.
    pub async fn replica_of(&self, primary: usize) -> usize {
        let port = self.servers[primary].port();
        eventually("a primary has a replica", PATIENCE, async || {
            let nodes = self.nodes().await;
            let id = nodes.get(&port).map(|node| &node.id);
            let mut others = nodes.values().filter(|node| !node.is_failed);
            let replica = others.find(|node| Some(&node.primary) == id);
            let replica = replica.and_then(|node| self.server_with_port(node.port));
            replica.ok_or_else(|| format!("{nodes:?}"))
        })
        .await
    }

    /// Pauses a server (SIGSTOP): its connections stay open, and nothing is answered.
    ///
    /// # Panics
    /// If it is not running.
    pub fn pause(&mut self, server: usize) {
        let paused = self.servers[server].pause();
        paused.unwrap_or_else(|error| panic!("{error}"));
        self.paused.insert(server);
    }

    /// Resumes a server after [`Self::pause`].
    ///
    /// # Panics
    /// If it is not running.
    pub fn resume(&mut self, server: usize) {
        let resumed = self.servers[server].resume();
        resumed.unwrap_or_else(|error| panic!("{error}"));
        self.paused.remove(&server);
    }

    /// Promotes a replica with the consent of its primary (`CLUSTER FAILOVER`). No write is lost.
    ///
    /// # Panics
    /// If it is not promoted within a minute.
    pub async fn request_failover(&self, replica: usize) {
        let ask = redis::cmd("CLUSTER").arg("FAILOVER").to_owned();
        eventually("a failover is begun", PATIENCE, async || {
            self.query::<String>(replica, &ask).await
        })
        .await;
        self.wait_until_primary(replica).await;
    }

    /// Waits until all running servers report that a server is a primary.
    ///
    /// # Panics
    /// If that takes more than a minute.
    pub async fn wait_until_primary(&self, server: usize) {
        let port = self.servers[server].port();
        eventually("a replica is promoted", PATIENCE, async || {
            for queried in self.running() {
                let nodes = self.nodes_seen_by(queried).await?;
                let is_primary = |node: &ClusterNode| node.port == port && node.is_primary;
                if !nodes.values().any(is_primary) {
                    return Err(format!("{nodes:?}"));
                }
            }
            Ok(())
        })
        .await;
    }

    /// Waits until a server is a replica and its link to the primary is up.
    ///
    /// # Panics
    /// If that takes more than a minute.
    pub async fn wait_until_replica(&self, server: usize) {
        let ask = redis::cmd("INFO").arg("replication").to_owned();
        eventually("a server is a replica", PATIENCE, async || {
            let role: String = self.query(server, &ask).await?;
            match role.contains("role:slave") && role.contains("master_link_status:up") {
                true => Ok(()),
                false => Err(role),
            }
        })
        .await;
    }

    /// Waits until every running server reports an available cluster, and every replica is in sync.
    ///
    /// # Panics
    /// If that takes more than a minute.
    pub async fn wait_until_in_sync(&self) {
        let (state, replication) = (
            redis::cmd("CLUSTER").arg("INFO").to_owned(),
            redis::cmd("INFO").arg("replication").to_owned(),
        );
        eventually("the cluster is whole", PATIENCE, async || {
            for server in self.running() {
                let info: String = self.query(server, &state).await?;
                let role: String = self.query(server, &replication).await?;
                let is_in_sync = match role.contains("role:slave") {
                    true => role.contains("master_link_status:up"),
                    false => role.contains("state=online") || !role.contains("slave0"),
                };
                if !info.contains("cluster_state:ok") || !is_in_sync {
                    return Err(format!("{info}\n{role}"));
                }
            }
            Ok(())
        })
        .await;
    }

    /// Waits until the replicas have received every write that their primaries had when this was called.
    ///
    /// # Panics
    /// If that takes more than a minute.
    pub async fn wait_until_replicated(&self) {
        for primary in self.primaries().await {
            let replica = self.replica_of(primary).await;
            let info = self.offset(primary, "master_repl_offset:").await;
            let info = info.expect("a primary reports its replication offset");
            eventually("a replica has caught up", PATIENCE, async || {
                match self.offset(replica, "slave_repl_offset:").await? {
                    replicated if replicated >= info => Ok(()),
                    replicated => Err(format!("{replicated} of {info}")),
                }
            })
            .await;
        }
    }

    async fn offset(&self, server: usize, field: &str) -> Result<u64, String> {
        let ask = redis::cmd("INFO").arg("replication").to_owned();
        let info: String = self.query(server, &ask).await?;
        let offset = info.lines().find_map(|line| line.strip_prefix(field));
        let offset = offset.and_then(|text| text.trim().parse().ok());
        offset.ok_or(info)
    }

    /// Returns the URLs of the primaries.
    ///
    /// # Panics
    /// If no server answers.
    pub async fn primary_urls(&self) -> Vec<String> {
        let primaries = self.primaries().await;
        primaries.into_iter().map(|one| self.url(one)).collect()
    }

    /// Checks the buckets of every primary as [`consistency::check`] does.
    ///
    /// # Panics
    /// If something is inconsistent; the message lists it.
    pub async fn check_consistency(&self) {
        for url in self.primary_urls().await {
            consistency::check(&url).await;
        }
    }

    /// Counts the jobs by state, over all primaries.
    ///
    /// # Panics
    /// If one of them cannot be read.
    pub async fn totals(&self) -> JobsByState {
        let mut all = JobsByState::default();
        for url in self.primary_urls().await {
            all += consistency::totals(&url).await;
        }
        all
    }

    /// Returns how often a server has executed a command.
    ///
    /// # Panics
    /// If it does not answer.
    pub async fn calls(&self, server: usize, command: &str) -> u64 {
        let ask = redis::cmd("INFO").arg("commandstats").to_owned();
        let info: String = self.query(server, &ask).await.expect("a server answers");
        let begin = format!("cmdstat_{command}:calls=");
        let calls = info.lines().find_map(|line| line.strip_prefix(&begin));
        let calls = calls.and_then(|rest| rest.split(',').next()?.parse().ok());
        calls.unwrap_or_default()
    }

    /// Flushes the script cache of a server (`SCRIPT FLUSH`).
    ///
    /// # Panics
    /// If it does not answer.
    pub async fn flush_scripts(&self, server: usize) {
        let flush = redis::cmd("SCRIPT").arg("FLUSH").to_owned();
        let flushed = self.query::<String>(server, &flush).await;
        flushed.expect("scripts are flushed");
    }

    /// Creates a user on a server (`ACL SETUSER`). `rule` is a line of `users.acl` without its first
    /// word.
    ///
    /// # Panics
    /// If it refuses.
    pub async fn add_user(&self, server: usize, rule: &str) {
        let set = redis::cmd("ACL")
            .arg("SETUSER")
            .arg(rule.split(' ').collect::<Vec<_>>())
            .to_owned();
        self.query::<String>(server, &set)
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

    fn server_with_port(&self, port: u16) -> Option<usize> {
        self.servers.iter().position(|server| server.port() == port)
    }

    /// Returns the nodes by port, as the first server that answers reports them.
    async fn nodes(&self) -> BTreeMap<u16, ClusterNode> {
        let mut message = String::new();
        for server in self.running() {
            match self.nodes_seen_by(server).await {
                Ok(nodes) => return nodes,
                Err(error) => message = error,
            }
        }
        panic!("no server answers: {message}");
    }

    async fn nodes_seen_by(&self, server: usize) -> Result<BTreeMap<u16, ClusterNode>, String> {
        let ask = redis::cmd("CLUSTER").arg("NODES").to_owned();
        let text: String = self.query(server, &ask).await?;
        let nodes = text.lines().filter_map(ClusterNode::read);
        Ok(nodes.map(|node| (node.port, node)).collect())
    }

    async fn query<T: FromRedisValue>(
        &self,
        server: usize,
        command: &redis::Cmd,
    ) -> Result<T, String> {
        let text = |error: redis::RedisError| error.to_string();
        let mut connection = connect(&self.url(server)).await.map_err(text)?;
        command.query_async(&mut connection).await.map_err(text)
    }
}

impl ClusterNode {
    /// Parses a line of `CLUSTER NODES`: id, address, flags, primary, ping, pong, epoch, link, slots.
    fn read(line: &str) -> Option<Self> {
        let words: Vec<&str> = line.split(' ').collect();
        let [id, place, flags, primary, _, _, _, _, slots @ ..] = words.as_slice() else {
            return None;
        };
        let port = place.split('@').next()?.rsplit(':').next()?.parse().ok()?;
        let flags: Vec<&str> = flags.split(',').collect();
        let is_away = flags.contains(&"fail");
        let range = |word: &&str| {
            // A moving slot is in brackets, which does not parse as a number.
            let (first, last) = word.split_once('-').unwrap_or((word, word));
            Some((first.parse().ok()?, last.parse().ok()?))
        };
        Some(Self {
            id: (*id).to_owned(),
            port,
            is_primary: flags.contains(&"master") && !is_away,
            is_failed: is_away,
            is_myself: flags.contains(&"myself"),
            primary: (*primary).to_owned(),
            slots: slots.iter().filter_map(range).collect(),
        })
    }
}

async fn connect(url: &str) -> redis::RedisResult<MultiplexedConnection> {
    // Longer than the default timeouts of the client, which are too short for a failover.
    let config = redis::AsyncConnectionConfig::new()
        .set_connection_timeout(Some(PATIENCE))
        .set_response_timeout(Some(PATIENCE));
    let client = Client::open(url)?;
    client
        .get_multiplexed_async_connection_with_config(&config)
        .await
}
