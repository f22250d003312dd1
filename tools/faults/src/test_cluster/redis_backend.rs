//! The Redis servers of a run.

use std::net::{Ipv4Addr, SocketAddr};
use std::path::Path;
use std::sync::PoisonError;
use std::sync::atomic::{AtomicUsize, Ordering};
use tidegate_core::JobsByState;

use tidegate_testkit::cluster_group::PASSWORD;
use tidegate_testkit::consistency;
use tidegate_testkit::{
    ClusterGroup, DaemonProgram, FaultProxy, RedisControl, RedisOptions, RedisServer,
    SentinelGroup, WallClock,
};
use tokio::sync::Mutex;

use crate::deployment::Deployment;
use crate::fault::Class;
use crate::plan::Plan;

/// The address that nodes of a cluster announce to clients: the proxies listen there, on the ports of the nodes. Among
/// each other the nodes use 127.0.0.1.
const WAYS: Ipv4Addr = Ipv4Addr::new(127, 0, 0, 2);
/// The pool of the clients' tokens, and the pool that it moves to.
const POOLS: [&str; 2] = ["default", "other"];
/// The user of audits.
pub(crate) const AUDITOR: &str = "auditor";
/// `cluster-node-timeout`. Long enough that slow nodes on a busy machine do not count as failed.
const NODE_TIMEOUT_MS: u32 = 2500;

/// The Redis servers of a run.
#[derive(Debug)]
pub(crate) struct RedisBackend {
    servers: RedisServers,
    /// Whether a crash may lose recently acknowledged writes.
    pub(crate) may_lose_acknowledged: bool,
    /// Number of failovers that the harness has caused. Changed only while the group is locked.
    pub(crate) failovers: AtomicUsize,
    slot_ms: u64,
    /// Index of the server that stores new jobs, if there are two pools.
    target_server: AtomicUsize,
}

#[derive(Debug)]
pub(crate) enum RedisServers {
    /// Servers without replicas. Two servers are two pools.
    Alone(Vec<StandaloneRedis>),
    Watched(Mutex<SentinelGroup>),
    Cluster {
        group: Mutex<ClusterGroup>,
        /// The proxies of the servers, in the same order.
        proxies: Vec<FaultProxy>,
    },
}

/// A Redis without a replica.
#[derive(Debug)]
pub(crate) struct StandaloneRedis {
    pub(crate) redis: Mutex<RedisServer>,
    /// Its clock, if the run moves it.
    pub(crate) clock: Option<WallClock>,
    /// A replica that may become the server of the pool, if the run has this fault.
    pub(crate) standby: Option<Mutex<RedisServer>>,
    address: std::sync::Mutex<SocketAddr>,
}

impl StandaloneRedis {
    fn address(&self) -> SocketAddr {
        *self.address.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Records that another server stores the jobs now.
    pub(crate) fn set_address(&self, address: SocketAddr) {
        *self.address.lock().unwrap_or_else(PoisonError::into_inner) = address;
    }
}

impl RedisBackend {
    pub(super) async fn start(plan: &Plan, folder: &Path) -> Self {
        let deployment = plan.deployment;
        let options = match plan.is_synced {
            true => RedisOptions::valkey(),
            false => RedisOptions::new(),
        };
        let options = with_users(options.ignores_sigxfsz(), plan);
        let servers = match deployment {
            Deployment::Always => start_standalone(options.always_synced(), plan, folder).await,
            Deployment::EverySecond => start_standalone(options, plan, folder).await,
            Deployment::Sentinels => {
                let group = SentinelGroup::start(deployment.replicas()).await;
                RedisServers::Watched(Mutex::new(group))
            }
            Deployment::Cluster => start_cluster(options.always_synced(), plan).await,
        };
        Self {
            servers,
            may_lose_acknowledged: deployment != Deployment::Always,
            failovers: AtomicUsize::new(0),
            slot_ms: plan.slot_ms,
            target_server: AtomicUsize::new(0),
        }
    }

    pub(crate) const fn servers(&self) -> &RedisServers {
        &self.servers
    }

    /// Returns the addresses of the servers that are reached without sentinels and cluster.
    pub(crate) fn standalone_addresses(&self) -> impl Iterator<Item = SocketAddr> {
        let alone: &[StandaloneRedis] = match &self.servers {
            RedisServers::Alone(servers) => servers,
            _ => &[],
        };
        alone.iter().map(StandaloneRedis::address)
    }

    /// Returns the names of the pools.
    pub(crate) fn pools(&self) -> &'static [&'static str] {
        match &self.servers {
            RedisServers::Alone(servers) if servers.len() > 1 => &POOLS,
            _ => &POOLS[..1],
        }
    }

    /// Makes APIs store new jobs in the other one of two servers, from the next settings on.
    pub(crate) fn swap_pools(&self) {
        self.target_server.fetch_xor(1, Ordering::Relaxed);
    }

    /// Returns the settings of a daemon. It reaches servers without replicas at these addresses, others through their
    /// sentinels or two cluster nodes. With two pools an API reads both, and stores new jobs in one.
    pub(crate) fn settings(
        &self,
        program: DaemonProgram,
        name: &str,
        addresses: &[SocketAddr],
    ) -> String {
        let slot_ms = self.slot_ms;
        let pool = match &self.servers {
            RedisServers::Alone(_) => return self.standalone_settings(program, name, addresses),
            RedisServers::Watched(group) => {
                let group = group.try_lock().expect("no fault has begun");
                group.settings()
            }
            RedisServers::Cluster { proxies: ways, .. } => {
                let named = [ways.first(), ways.last()].into_iter().flatten();
                let named: Vec<String> = named
                    .map(|way| format!("redis://{}", way.address()))
                    .collect();
                format!("cluster = {named:?}\nusername = \"{name}\"\npassword = \"{PASSWORD}\"\n")
            }
        };
        format!("[pool.{}]\nslot_ms = {slot_ms}\n{pool}", POOLS[0])
    }

    fn standalone_settings(
        &self,
        program: DaemonProgram,
        name: &str,
        addresses: &[SocketAddr],
    ) -> String {
        let slot_ms = self.slot_ms;
        let url = |address: SocketAddr| format!("redis://{name}:{PASSWORD}@{address}");
        let pool = |pool: &str, address: SocketAddr| {
            let url = url(address);
            format!("[pool.{pool}]\nslot_ms = {slot_ms}\nurl = \"{url}\"\n")
        };
        let [first, second] = *addresses else {
            return pool(POOLS[0], addresses[0]);
        };
        let (old, new) = match self.target_server.load(Ordering::Relaxed) {
            0 => (second, first),
            _ => (first, second),
        };
        let (moves, tokens) = match program {
            DaemonProgram::Api => (
                format!("migrate_to = \"{}\"\n", POOLS[1]),
                format!(
                    "[admin_store]\nslot_ms = {slot_ms}\nurl = \"{}\"\n",
                    url(first)
                ),
            ),
            DaemonProgram::Pumpd | DaemonProgram::Relayd => (String::new(), String::new()),
        };
        format!(
            "{}{moves}{}{tokens}",
            pool(POOLS[0], old),
            pool(POOLS[1], new)
        )
    }

    /// Returns the URLs of the servers that have the jobs now: servers without replicas, the master, or the primaries
    /// of a cluster.
    pub(crate) async fn urls(&self) -> Vec<String> {
        match &self.servers {
            RedisServers::Alone(servers) => {
                let mut urls = Vec::new();
                for server in servers {
                    urls.push(server.redis.lock().await.url());
                }
                urls
            }
            RedisServers::Watched(group) => {
                let group = group.lock().await;
                vec![group.url(group.master_seen_by(0).await)]
            }
            RedisServers::Cluster { group, .. } => group.lock().await.primary_urls().await,
        }
    }

    /// Counts the jobs by state.
    pub(crate) async fn totals(&self) -> JobsByState {
        let mut all = JobsByState::default();
        for url in self.urls().await {
            all += consistency::totals(&url).await;
        }
        all
    }

    /// Returns the inconsistencies of the stored data.
    pub(crate) async fn defects(&self) -> Vec<String> {
        let mut all = Vec::new();
        for url in self.urls().await {
            all.extend(consistency::defects(&url).await);
        }
        all
    }

    /// Copies the servers' logs into `folder`.
    pub(crate) async fn keep_logs(&self, folder: &Path) {
        let copy = |redis: &RedisServer, name: String| {
            // A missing log is no reason to fail the run.
            let _ = std::fs::copy(redis.log_path(), folder.join(name));
        };
        match &self.servers {
            RedisServers::Alone(servers) => {
                for (number, server) in servers.iter().enumerate() {
                    copy(&*server.redis.lock().await, format!("redis-{number}.log"));
                }
            }
            RedisServers::Watched(group) => {
                let group = group.lock().await;
                for (number, server) in group.servers.iter().enumerate() {
                    copy(server, format!("redis-{number}.log"));
                }
                for (number, sentinel) in group.sentinels.iter().enumerate() {
                    copy(sentinel, format!("sentinel-{number}.log"));
                }
            }
            RedisServers::Cluster { group, .. } => {
                for (number, server) in group.lock().await.servers.iter().enumerate() {
                    copy(server, format!("redis-{number}.log"));
                }
            }
        }
    }

    /// Opens a connection to each of the servers that have the jobs now, without a proxy.
    pub(crate) async fn connect_to_all(&self) -> Vec<RedisControl> {
        let mut controls = Vec::new();
        for url in self.urls().await {
            controls.push(RedisControl::connect(&url).await);
        }
        controls
    }
}

/// Adds a separate user for each daemon, whose login can be rejected. The servers themselves use the default user.
fn with_users(options: RedisOptions, plan: &Plan) -> RedisOptions {
    let users = daemon_names(plan).chain([AUDITOR.to_owned()]);
    users.fold(options, |options, user| {
        options.setting("user", &format!("{user} on >{PASSWORD} ~* &* +@all"))
    })
}

/// Returns the names of the daemons of a run.
fn daemon_names(plan: &Plan) -> impl Iterator<Item = String> {
    let apis = (0..plan.apis).map(|number| format!("api-{number}"));
    apis.chain((0..plan.pumps).map(|number| format!("pump-{number}")))
}

async fn start_standalone(options: RedisOptions, plan: &Plan, folder: &Path) -> RedisServers {
    let has = |class| plan.faults.iter().any(|it| it.class == class);
    let (moves_clocks, switches) = (has(Class::RedisClock), has(Class::EndpointSwitch));
    let mut servers = Vec::new();
    for number in 0..=usize::from(plan.has_second_redis) {
        let clock = moves_clocks.then(|| WallClock::new(folder, &format!("redis-{number}")));
        let options = match &clock {
            Some(clock) => options.clone().clock(clock),
            None => options.clone(),
        };
        let redis = start_server(options.clone()).await;
        let standby = match switches {
            true => Some(Mutex::new(start_replica(options, &redis).await)),
            false => None,
        };
        servers.push(StandaloneRedis {
            address: std::sync::Mutex::new(redis.address()),
            redis: Mutex::new(redis),
            clock,
            standby,
        });
    }
    RedisServers::Alone(servers)
}

async fn start_server(options: RedisOptions) -> RedisServer {
    let starting = tokio::task::spawn_blocking(move || options.start());
    starting.await.expect("redis starts")
}

async fn start_replica(options: RedisOptions, master: &RedisServer) -> RedisServer {
    let replica = start_server(options).await;
    let mut control = RedisControl::connect(&replica.url()).await;
    control.replicate(Some(master.address())).await;
    control.wait_until_in_sync().await;
    replica
}

async fn start_cluster(options: RedisOptions, plan: &Plan) -> RedisServers {
    let options = options
        .setting("cluster-announce-hostname", &WAYS.to_string())
        .setting("cluster-preferred-endpoint-type", "hostname");
    let group = ClusterGroup::start_with(options, NODE_TIMEOUT_MS).await;
    let mut ways = Vec::new();
    for (number, server) in group.servers.iter().enumerate() {
        let (listen, distance) = ((WAYS, server.port()).into(), plan.latency(number));
        ways.push(FaultProxy::start_at(listen, server.address(), distance, plan.seed).await);
    }
    RedisServers::Cluster {
        group: Mutex::new(group),
        proxies: ways,
    }
}
