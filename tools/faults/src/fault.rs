//! The faults that can be injected.

use std::ops::Range;

use clap::ValueEnum;
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use serde::{Deserialize, Serialize};

use crate::deployment::{Deployment, LEASE_MS};

/// A kind of fault.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize, ValueEnum,
)]
#[serde(rename_all = "kebab-case")]
pub enum Class {
    /// An API is killed (kill -9) and restarted
    ApiKill,
    /// An API is paused (SIGSTOP) for seconds
    ApiPause,
    /// A pump is killed (kill -9) and restarted after its lease
    PumpKill,
    /// A pump is paused (SIGSTOP) for longer than its lease
    PumpPause,
    /// All daemons are stopped (SIGTERM) and restarted, one after the other
    Upgrade,
    /// The wall clocks of all daemons jump by up to an hour, forward or back
    Clock,
    /// Redis is killed (kill -9) and restarted
    RedisKill,
    /// The clock of Redis jumps by up to 40 s, forward or back, and returns
    RedisClock,
    /// Redis is paused (SIGSTOP) for seconds
    RedisPause,
    /// Redis answers no client (CLIENT PAUSE ALL) for seconds
    RedisBusy,
    /// The script cache of Redis is flushed (SCRIPT FLUSH), repeatedly
    ScriptFlush,
    /// Redis closes all subscriptions (CLIENT KILL TYPE pubsub), repeatedly
    Subscriptions,
    /// Redis is out of memory (maxmemory)
    MemoryFull,
    /// Redis stays at maxmemory for tens of seconds while clients use it: its data do not grow
    MemoryInUse,
    /// Redis is killed and restarted so that it answers LOADING for seconds
    RedisLoading,
    /// An API and a pump are killed and restarted while Redis answers LOADING
    StartWhileLoading,
    /// The address of Redis leads to another server, which becomes the master; old connections stay
    EndpointSwitch,
    /// The disk of Redis's append-only file is full
    DiskFull,
    /// A failover, with sentinels or on a cluster: requested, or because the master is killed or paused
    Failover,
    /// Slots of a cluster that hold the run's queues move to other primaries, a few keys at a time
    Reshard,
    /// Data between a daemon and Redis are delayed, each chunk by a different time
    NetDelay,
    /// Connections between a daemon and Redis are reset, repeatedly
    NetCut,
    /// Connections between a daemon and Redis are half open: everything is dropped silently
    NetSilence,
    /// Redis executes the calls of a daemon, its replies are dropped, then the connections are reset
    NetReplies,
    /// Nothing passes between a daemon and Redis for seconds, then all of it
    NetStall,
    /// Connections between clients and an API are reset, repeatedly
    ClientCut,
    /// The numbers of lanes of queues change, repeatedly
    Lanes,
    /// The numbers of lanes of queues change while a daemon is paused, or its connections to Redis stall
    LanesRace,
    /// A token is deleted while consumers wait with it
    Revocation,
    /// The pool moves to its second Redis, or back: one API after the other is restarted
    PoolMove,
    /// One primary of a cluster is silent, unreachable or slow for longer than leases last, without a failover
    ShardAway,
    /// Like shard-away, for the primary that has the tokens of the run
    TokensAway,
    /// The only Redis, or one primary, rejects the logins of all daemons and closes their connections
    LoginRefused,
    /// One primary rejects the login of one pump for longer than its lease; other pumps reach it
    PumpCutOff,
    /// Redis closes connections that are idle for 3 s
    IdleTimeout,
    /// An API is restarted with a low limit of open files, and more clients connect than it allows
    FewFiles,
    /// A daemon is restarted with standard error on a full pipe, then stopped by SIGTERM
    LogUnread,
    /// A second namespace floods: schedules, queue names, lists that are not read, consumes of many names
    TenantFlood,
}

impl Class {
    /// Returns its name on the command line.
    #[must_use]
    pub fn name(self) -> String {
        self.to_possible_value()
            .map(|value| value.get_name().to_owned())
            .unwrap_or_default()
    }

    /// Whether requests may fail while it has an effect, apart from those whose client loses its connection.
    #[must_use]
    pub const fn fails_requests(self) -> bool {
        !matches!(
            self,
            Self::PumpKill
                | Self::PumpPause
                | Self::PumpCutOff
                | Self::Upgrade
                | Self::Clock
                | Self::ScriptFlush
                | Self::Subscriptions
                | Self::Reshard
                | Self::ClientCut
                | Self::Lanes
                | Self::Revocation
                | Self::IdleTimeout
                | Self::FewFiles
                | Self::LogUnread
                | Self::TenantFlood
        )
    }

    /// Whether it starts APIs.
    #[must_use]
    pub const fn starts_apis(self) -> bool {
        matches!(
            self,
            Self::Upgrade
                | Self::ApiKill
                | Self::StartWhileLoading
                | Self::PoolMove
                | Self::FewFiles
                | Self::LogUnread
        )
    }

    /// Range of its length, in ms.
    const fn lengths_ms(self) -> Range<u64> {
        match self {
            Self::PumpKill => LEASE_MS..LEASE_MS + 3000,
            Self::PumpPause => LEASE_MS + 500..LEASE_MS + 3000,
            Self::ApiKill | Self::RedisKill => 0..3000,
            Self::Failover | Self::Reshard => 6000..8000,
            Self::NetSilence => 2000..4000,
            Self::RedisLoading | Self::StartWhileLoading => 1500..3500,
            Self::LanesRace => 8000..20_000,
            Self::Revocation => 2500..4000,
            Self::ShardAway | Self::TokensAway => 7000..10_000,
            Self::PumpCutOff => 3 * LEASE_MS..4 * LEASE_MS,
            Self::IdleTimeout => 7000..10_000,
            Self::MemoryInUse => 15_000..40_000,
            _ => 1000..5000,
        }
    }

    /// Whether it applies to a deployment. With sentinels there is no proxy to Redis, because they report the address
    /// of the master. A server with a replica is replaced when it is unavailable, which is the class `failover`.
    #[must_use]
    pub const fn applies_to(self, deployment: Deployment) -> bool {
        let has_sentinels = matches!(deployment, Deployment::Sentinels);
        let is_cluster = matches!(deployment, Deployment::Cluster);
        match self {
            Self::Failover => has_sentinels || is_cluster,
            Self::Reshard | Self::ShardAway | Self::TokensAway | Self::PumpCutOff => is_cluster,
            Self::RedisKill
            | Self::RedisLoading
            | Self::StartWhileLoading
            | Self::EndpointSwitch
            | Self::RedisClock
            | Self::RedisPause
            | Self::DiskFull
            | Self::PoolMove => !has_sentinels && !is_cluster,
            Self::RedisBusy
            | Self::MemoryFull
            | Self::MemoryInUse
            | Self::LoginRefused
            | Self::NetDelay
            | Self::NetCut
            | Self::NetSilence
            | Self::NetReplies
            | Self::NetStall => !has_sentinels,
            _ => true,
        }
    }
}

/// One fault of a plan.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PlannedFault {
    /// The class.
    pub class: Class,
    /// Pause before it, in ms.
    pub after_ms: u64,
    /// Its length, in ms.
    pub length_ms: u64,
    /// Selects its target, among the possible ones.
    pub target: usize,
    /// Selects one of its variants.
    pub variant: u32,
}

impl PlannedFault {
    /// Draws a fault of this class from a seed.
    #[must_use]
    pub fn draw(seed: u64, class: Class) -> Self {
        let mut random = StdRng::seed_from_u64(seed);
        Self {
            class,
            after_ms: random.random_range(500..6000),
            length_ms: random.random_range(class.lengths_ms()),
            target: random.random_range(0..usize::from(u16::MAX)),
            variant: random.random(),
        }
    }
}
