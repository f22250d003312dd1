//! What keeps the jobs.

use std::net::{Ipv4Addr, SocketAddr};
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};

use tidegate_testkit::cluster_group::PASSWORD;
use tidegate_testkit::world::{self, Totals};
use tidegate_testkit::{
    ClusterGroup, FaultProxy, Program, RedisControl, RedisOptions, RedisServer, SentinelGroup,
    WallClock,
};
use tokio::sync::Mutex;

use crate::fault::Class;
use crate::plan::{Deployment, Plan};

/// Nodes of a cluster tell clients that they are here, on the ports that they have: there are the proxies. Among each
/// other they go by their own address.
const WAYS: Ipv4Addr = Ipv4Addr::new(127, 0, 0, 2);
/// The pool that clients' tokens are for, and the one that it moves to.
const POOLS: [&str; 2] = ["default", "other"];
/// The user of audits.
pub(crate) const AUDITOR: &str = "auditor";
/// Of a cluster. A busy machine should not make it take nodes for dead that are only slow.
const NODE_TIMEOUT_MS: u32 = 2500;

/// The servers below the daemons.
#[derive(Debug)]
pub(crate) struct Keeper {
    servers: Servers,
    /// Whether it may lose what it acknowledged a moment before it died.
    pub(crate) forgets: bool,
    /// How often a strike has had servers change their places. It counts while it has the group to itself.
    pub(crate) failovers: AtomicUsize,
    slot_ms: u64,
    /// Where jobs are stored that are published now, of several servers without replicas.
    stores_in: AtomicUsize,
}

#[derive(Debug)]
pub(crate) enum Servers {
    /// Each is alone. Two are two pools.
    Alone(Vec<Alone>),
    Watched(Mutex<SentinelGroup>),
    Cluster {
        group: Mutex<ClusterGroup>,
        /// The proxies before the servers, in their order.
        ways: Vec<FaultProxy>,
    },
}

/// A Redis without a replica.
#[derive(Debug)]
pub(crate) struct Alone {
    pub(crate) redis: Mutex<RedisServer>,
    /// Its clock, where the run moves it.
    pub(crate) clock: Option<WallClock>,
    address: SocketAddr,
}

impl Keeper {
    pub(super) async fn start(plan: &Plan, folder: &Path) -> Self {
        let deployment = plan.deployment;
        let options = with_users(RedisOptions::new().outlives_a_full_disk(), plan);
        let options = match plan.is_synced {
            true => options.valkey(),
            false => options,
        };
        let servers = match deployment {
            Deployment::Always => alone(options.always_synced(), plan, folder).await,
            Deployment::EverySecond => alone(options, plan, folder).await,
            Deployment::Sentinels => {
                let group = SentinelGroup::start(deployment.replicas()).await;
                Servers::Watched(Mutex::new(group))
            }
            Deployment::Cluster => cluster(options.always_synced(), plan).await,
        };
        Self {
            servers,
            forgets: deployment != Deployment::Always,
            failovers: AtomicUsize::new(0),
            slot_ms: plan.slot_ms,
            stores_in: AtomicUsize::new(0),
        }
    }

    pub(crate) const fn servers(&self) -> &Servers {
        &self.servers
    }

    /// Where the servers without replicas are.
    pub(crate) fn alone(&self) -> impl Iterator<Item = SocketAddr> {
        let alone: &[Alone] = match &self.servers {
            Servers::Alone(servers) => servers,
            _ => &[],
        };
        alone.iter().map(|server| server.address)
    }

    /// The names of the pools.
    pub(crate) fn pools(&self) -> &'static [&'static str] {
        match &self.servers {
            Servers::Alone(servers) if servers.len() > 1 => &POOLS,
            _ => &POOLS[..1],
        }
    }

    /// Settings that are made from now on have an API store new jobs in the other one of two servers.
    pub(crate) fn turn_around(&self) {
        self.stores_in.fetch_xor(1, Ordering::Relaxed);
    }

    /// The settings of a daemon with this name that finds servers without replicas at these addresses, others by their
    /// sentinels or by two of their nodes. An API looks into both of two pools, and stores in one.
    pub(crate) fn settings(
        &self,
        program: Program,
        name: &str,
        addresses: &[SocketAddr],
    ) -> String {
        let slot_ms = self.slot_ms;
        let pool = match &self.servers {
            Servers::Alone(_) => return self.settings_of_alone(program, name, addresses),
            Servers::Watched(group) => {
                let group = group.try_lock().expect("no fault has begun");
                group.settings()
            }
            Servers::Cluster { ways, .. } => {
                let named = [ways.first(), ways.last()].into_iter().flatten();
                let named: Vec<String> = named
                    .map(|way| format!("redis://{}", way.address()))
                    .collect();
                format!("cluster = {named:?}\nusername = \"{name}\"\npassword = \"{PASSWORD}\"\n")
            }
        };
        format!("[pool.{}]\nslot_ms = {slot_ms}\n{pool}", POOLS[0])
    }

    fn settings_of_alone(&self, program: Program, name: &str, addresses: &[SocketAddr]) -> String {
        let slot_ms = self.slot_ms;
        let url = |address: SocketAddr| format!("redis://{name}:{PASSWORD}@{address}");
        let pool = |pool: &str, address: SocketAddr| {
            let url = url(address);
            format!("[pool.{pool}]\nslot_ms = {slot_ms}\nurl = \"{url}\"\n")
        };
        let [first, second] = *addresses else {
            return pool(POOLS[0], addresses[0]);
        };
        let (old, new) = match self.stores_in.load(Ordering::Relaxed) {
            0 => (second, first),
            _ => (first, second),
        };
        let (moves, tokens) = match program {
            Program::Api => (
                format!("migrate_to = \"{}\"\n", POOLS[1]),
                format!(
                    "[admin_store]\nslot_ms = {slot_ms}\nurl = \"{}\"\n",
                    url(first)
                ),
            ),
            Program::Pumpd => (String::new(), String::new()),
        };
        format!(
            "{}{moves}{}{tokens}",
            pool(POOLS[0], old),
            pool(POOLS[1], new)
        )
    }

    /// The urls of the servers that have the jobs now: one, or the primaries of a cluster.
    pub(crate) async fn urls(&self) -> Vec<String> {
        match &self.servers {
            Servers::Alone(servers) => {
                let mut urls = Vec::new();
                for server in servers {
                    urls.push(server.redis.lock().await.url());
                }
                urls
            }
            Servers::Watched(group) => {
                let group = group.lock().await;
                vec![group.url(group.master_by(0).await)]
            }
            Servers::Cluster { group, .. } => group.lock().await.primary_urls().await,
        }
    }

    /// How many jobs there are, by state.
    pub(crate) async fn totals(&self) -> Totals {
        let mut all = Totals::default();
        for url in self.urls().await {
            all += world::totals(&url).await;
        }
        all
    }

    /// What is amiss in what is stored.
    pub(crate) async fn defects(&self) -> Vec<String> {
        let mut all = Vec::new();
        for url in self.urls().await {
            all.extend(world::defects(&url).await);
        }
        all
    }

    /// Copies the servers' logs into `folder`.
    pub(crate) async fn keep_logs(&self, folder: &Path) {
        let copy = |redis: &RedisServer, name: String| {
            // A log that is missing is worth no run.
            let _ = std::fs::copy(redis.log_path(), folder.join(name));
        };
        match &self.servers {
            Servers::Alone(servers) => {
                for (number, server) in servers.iter().enumerate() {
                    copy(&*server.redis.lock().await, format!("redis-{number}.log"));
                }
            }
            Servers::Watched(group) => {
                let group = group.lock().await;
                for (number, server) in group.servers.iter().enumerate() {
                    copy(server, format!("redis-{number}.log"));
                }
                for (number, sentinel) in group.sentinels.iter().enumerate() {
                    copy(sentinel, format!("sentinel-{number}.log"));
                }
            }
            Servers::Cluster { group, .. } => {
                for (number, server) in group.lock().await.servers.iter().enumerate() {
                    copy(server, format!("redis-{number}.log"));
                }
            }
        }
    }

    /// A connection to each of the servers that have the jobs now, past all proxies.
    pub(crate) async fn controls(&self) -> Vec<RedisControl> {
        let mut controls = Vec::new();
        for url in self.urls().await {
            controls.push(RedisControl::of(&url).await);
        }
        controls
    }
}

/// Each daemon has a user of its own, whose login can be refused. The servers themselves use the default user.
fn with_users(options: RedisOptions, plan: &Plan) -> RedisOptions {
    let users = pods(plan).chain([AUDITOR.to_owned()]);
    users.fold(options, |options, user| {
        options.setting("user", &format!("{user} on >{PASSWORD} ~* &* +@all"))
    })
}

/// The names of the daemons of a run.
fn pods(plan: &Plan) -> impl Iterator<Item = String> {
    let apis = (0..plan.apis).map(|number| format!("api-{number}"));
    apis.chain((0..plan.pumps).map(|number| format!("pump-{number}")))
}

async fn alone(options: RedisOptions, plan: &Plan, folder: &Path) -> Servers {
    let moves_clocks = plan.faults.iter().any(|it| it.class == Class::RedisClock);
    let mut servers = Vec::new();
    for number in 0..=usize::from(plan.has_second_redis) {
        let clock = moves_clocks.then(|| WallClock::new(folder, &format!("redis-{number}")));
        let options = match &clock {
            Some(clock) => options.clone().clock(clock),
            None => options.clone(),
        };
        let starting = tokio::task::spawn_blocking(move || options.start());
        let redis = starting.await.expect("redis starts");
        servers.push(Alone {
            address: redis.address(),
            redis: Mutex::new(redis),
            clock,
        });
    }
    Servers::Alone(servers)
}

async fn cluster(options: RedisOptions, plan: &Plan) -> Servers {
    let options = options
        .setting("cluster-announce-hostname", &WAYS.to_string())
        .setting("cluster-preferred-endpoint-type", "hostname");
    let group = ClusterGroup::start_with(options, NODE_TIMEOUT_MS).await;
    let mut ways = Vec::new();
    for (number, server) in group.servers.iter().enumerate() {
        let (listen, distance) = ((WAYS, server.port()).into(), plan.distance(number));
        ways.push(FaultProxy::start_at(listen, server.address(), distance, plan.seed).await);
    }
    Servers::Cluster {
        group: Mutex::new(group),
        ways,
    }
}
