//! What keeps the jobs. Redis Cluster will be one more of these.

use std::net::SocketAddr;
use std::path::Path;

use tidegate_testkit::{RedisControl, RedisOptions, RedisServer, SentinelGroup};
use tokio::sync::Mutex;

use crate::plan::Deployment;

/// How many replicas follow the master that sentinels watch.
pub(crate) const REPLICAS: usize = 2;

/// The servers below the daemons.
#[derive(Debug)]
pub(crate) struct Keeper {
    servers: Servers,
    /// Whether it may lose what it acknowledged a moment before it died.
    pub(crate) forgets: bool,
}

#[derive(Debug)]
pub(crate) enum Servers {
    One {
        redis: Box<Mutex<RedisServer>>,
        address: SocketAddr,
    },
    Watched(Mutex<SentinelGroup>),
}

impl Keeper {
    pub(super) async fn start(deployment: Deployment) -> Self {
        let options = RedisOptions::new().outlives_a_full_disk();
        let servers = match deployment {
            Deployment::Always => one(options.always_synced()).await,
            Deployment::EverySecond => one(options).await,
            Deployment::Sentinels => {
                Servers::Watched(Mutex::new(SentinelGroup::start(REPLICAS).await))
            }
        };
        Self {
            servers,
            forgets: deployment != Deployment::Always,
        }
    }

    pub(crate) const fn servers(&self) -> &Servers {
        &self.servers
    }

    /// Where the one Redis is, if there is one.
    pub(super) const fn one_redis(&self) -> Option<SocketAddr> {
        match &self.servers {
            Servers::One { address, .. } => Some(*address),
            Servers::Watched(_) => None,
        }
    }

    /// The settings of a daemon that finds the Redis at this address, or by its sentinels.
    pub(super) fn settings(&self, address: Option<SocketAddr>) -> String {
        let pool = match &self.servers {
            Servers::One { address: own, .. } => {
                format!("url = \"redis://{}\"\n", address.unwrap_or(*own))
            }
            Servers::Watched(group) => {
                let group = group.try_lock().expect("nobody else uses it yet");
                group.settings()
            }
        };
        format!("[pool.default]\n{pool}")
    }

    /// The url of the Redis that has the jobs now.
    pub(crate) async fn url(&self) -> String {
        match &self.servers {
            Servers::One { redis, .. } => redis.lock().await.url(),
            Servers::Watched(group) => {
                let group = group.lock().await;
                group.url(group.master_by(0).await)
            }
        }
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
        }
    }

    /// A connection to it, past all proxies.
    pub(crate) async fn control(&self) -> RedisControl {
        RedisControl::of(&self.url().await).await
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
