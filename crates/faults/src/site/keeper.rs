//! What keeps the jobs.

use std::net::{Ipv4Addr, SocketAddr};
use std::path::Path;
use std::sync::atomic::AtomicUsize;

use tidegate_testkit::cluster_group::PASSWORD;
use tidegate_testkit::world::{self, Totals};
use tidegate_testkit::{
    ClusterGroup, FaultProxy, RedisControl, RedisOptions, RedisServer, SentinelGroup,
};
use tokio::sync::Mutex;

use crate::plan::Deployment;

/// Nodes of a cluster tell clients that they are here, on the ports that they have: there are the proxies. Among each
/// other they go by their own address.
const WAYS: Ipv4Addr = Ipv4Addr::new(127, 0, 0, 2);
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
}

#[derive(Debug)]
pub(crate) enum Servers {
    One {
        redis: Box<Mutex<RedisServer>>,
        address: SocketAddr,
    },
    Watched(Mutex<SentinelGroup>),
    Cluster {
        group: Mutex<ClusterGroup>,
        /// The proxies before the servers, in their order.
        ways: Vec<FaultProxy>,
    },
}

impl Keeper {
    pub(super) async fn start(deployment: Deployment, seed: u64) -> Self {
        let options = RedisOptions::new().outlives_a_full_disk();
        let servers = match deployment {
            Deployment::Always => one(options.always_synced()).await,
            Deployment::EverySecond => one(options).await,
            Deployment::Sentinels => {
                let group = SentinelGroup::start(deployment.replicas()).await;
                Servers::Watched(Mutex::new(group))
            }
            Deployment::Cluster => cluster(options.always_synced(), seed).await,
        };
        Self {
            servers,
            forgets: deployment != Deployment::Always,
            failovers: AtomicUsize::new(0),
        }
    }

    pub(crate) const fn servers(&self) -> &Servers {
        &self.servers
    }

    /// Where the one Redis is, if there is one.
    pub(super) const fn one_redis(&self) -> Option<SocketAddr> {
        match &self.servers {
            Servers::One { address, .. } => Some(*address),
            _ => None,
        }
    }

    /// The settings of a daemon that finds the Redis at this address, or by its sentinels, or by two of its nodes.
    pub(crate) fn settings(&self, address: Option<SocketAddr>) -> String {
        let pool = match &self.servers {
            Servers::One { address: own, .. } => {
                format!("url = \"redis://{}\"\n", address.unwrap_or(*own))
            }
            Servers::Watched(group) => {
                let group = group.try_lock().expect("nobody else uses it yet");
                group.settings()
            }
            Servers::Cluster { ways, .. } => {
                let named = [ways.first(), ways.last()].into_iter().flatten();
                let named: Vec<String> = named
                    .map(|way| format!("redis://{}", way.address()))
                    .collect();
                format!("cluster = {named:?}\npassword = \"{PASSWORD}\"\n")
            }
        };
        format!("[pool.default]\n{pool}")
    }

    /// The urls of the servers that have the jobs now: one, or the primaries of a cluster.
    pub(crate) async fn urls(&self) -> Vec<String> {
        match &self.servers {
            Servers::One { redis, .. } => vec![redis.lock().await.url()],
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
            Servers::One { redis, .. } => copy(&*redis.lock().await, "redis.log".to_owned()),
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

async fn one(options: RedisOptions) -> Servers {
    let starting = tokio::task::spawn_blocking(move || options.start());
    let redis = starting.await.expect("redis starts");
    let address = redis.address();
    Servers::One {
        redis: Box::new(Mutex::new(redis)),
        address,
    }
}

async fn cluster(options: RedisOptions, seed: u64) -> Servers {
    let options = options
        .setting("cluster-announce-hostname", &WAYS.to_string())
        .setting("cluster-preferred-endpoint-type", "hostname");
    let group = ClusterGroup::start_with(options, NODE_TIMEOUT_MS).await;
    let mut ways = Vec::new();
    for server in &group.servers {
        let listen = (WAYS, server.port()).into();
        ways.push(FaultProxy::start_at(listen, server.address(), seed).await);
    }
    Servers::Cluster {
        group: Mutex::new(group),
        ways,
    }
}
