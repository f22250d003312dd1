//! The faults: what can be done to the world.

use std::ops::Range;

use clap::ValueEnum;
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use serde::{Deserialize, Serialize};

use crate::plan::{Deployment, LEASE_MS};

/// A kind of fault.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize, ValueEnum,
)]
#[serde(rename_all = "kebab-case")]
pub enum Class {
    /// An API is ended by kill -9 and comes back
    ApiKill,
    /// An API stands still (SIGSTOP) for seconds
    ApiPause,
    /// A pump is ended by kill -9 and comes back after its lease
    PumpKill,
    /// A pump stands still for longer than its lease
    PumpPause,
    /// All daemons are ended and started again, one after the other, by SIGTERM
    Upgrade,
    /// The wall clocks of all daemons jump by up to an hour, ahead or back
    Clock,
    /// Redis is ended by kill -9 and comes back
    RedisKill,
    /// The clock of Redis jumps by up to 40 s, ahead or back, and back again
    RedisClock,
    /// Redis stands still (SIGSTOP) for seconds
    RedisPause,
    /// Redis is there and answers nobody (CLIENT PAUSE) for seconds
    RedisBusy,
    /// Redis forgets its scripts (SCRIPT FLUSH), again and again
    ScriptFlush,
    /// Redis ends all subscriptions (CLIENT KILL TYPE pubsub), again and again
    Subscriptions,
    /// Redis has no memory left (maxmemory)
    MemoryFull,
    /// Redis is killed, and started again with so much to load that it answers LOADING for seconds
    RedisLoading,
    /// The disk of Redis's append-only file is full
    DiskFull,
    /// A replica becomes the master, of sentinels or of a part of a cluster: it is asked to, or the master dies or falls silent
    Failover,
    /// Slots of a cluster that hold what is alive move to another primary, key by key, and on again
    Reshard,
    /// What a daemon and Redis say to each other is late, each piece by another time
    NetDelay,
    /// Connections between a daemon and Redis are reset, again and again
    NetCut,
    /// Connections between a daemon and Redis are half open: nothing arrives, nobody is told
    NetSilence,
    /// Redis does what a daemon asks, the answers vanish, then the connections are reset
    NetReplies,
    /// Nothing passes between a daemon and Redis for seconds, then all of it
    NetStall,
    /// Connections between clients and an API are reset, again and again
    ClientCut,
    /// Queues are given more lanes, and fewer, again and again
    Lanes,
    /// Queues are given more lanes, and fewer, while a daemon, or its connection to Redis, stands still for long
    LanesRace,
    /// A token is deleted while consumers wait with it
    Revocation,
    /// The pool moves to its second Redis, or back: one API after the other is restarted
    PoolMove,
    /// One primary of a cluster is silent, unreachable or far away for longer than leases last, without a failover
    ShardAway,
    /// The same with the primary that has the tokens of the run
    TokensAway,
    /// Daemons are refused their login, by the only Redis or by one primary, and lose their connections
    LoginRefused,
    /// A pump is refused by one primary for longer than its lease, which others reach
    PumpCutOff,
    /// Redis ends connections that are idle for three seconds
    IdleTimeout,
    /// An API is restarted with few open files, and more clients connect than it has files
    FewFiles,
    /// A daemon is restarted with standard error on a full pipe, and stopped by SIGTERM
    LogUnread,
}

impl Class {
    /// Its name, as on the command line.
    #[must_use]
    pub fn name(self) -> String {
        self.to_possible_value()
            .map(|value| value.get_name().to_owned())
            .unwrap_or_default()
    }

    /// Whether requests may fail while it can be felt. Those whose client loses its connection are not meant.
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
        )
    }

    /// How long it may last, in ms.
    const fn lengths_ms(self) -> Range<u64> {
        match self {
            Self::PumpKill => LEASE_MS..LEASE_MS + 3000,
            Self::PumpPause => LEASE_MS + 500..LEASE_MS + 3000,
            Self::ApiKill | Self::RedisKill => 0..3000,
            Self::Failover | Self::Reshard => 6000..8000,
            Self::NetSilence => 2000..4000,
            Self::RedisLoading => 1500..3500,
            Self::LanesRace => 8000..20_000,
            Self::Revocation => 2500..4000,
            Self::ShardAway | Self::TokensAway => 7000..10_000,
            Self::PumpCutOff => 3 * LEASE_MS..4 * LEASE_MS,
            Self::IdleTimeout => 7000..10_000,
            _ => 1000..5000,
        }
    }

    /// Whether it means anything to what keeps the jobs. Sentinels choose the Redis and the way to it, so there is no
    /// proxy; servers that have a replica are replaced when they are away, which is a class of its own.
    #[must_use]
    pub const fn can_happen_to(self, deployment: Deployment) -> bool {
        let has_sentinels = matches!(deployment, Deployment::Sentinels);
        let is_cluster = matches!(deployment, Deployment::Cluster);
        match self {
            Self::Failover => has_sentinels || is_cluster,
            Self::Reshard | Self::ShardAway | Self::TokensAway | Self::PumpCutOff => is_cluster,
            Self::RedisKill
            | Self::RedisLoading
            | Self::RedisClock
            | Self::RedisPause
            | Self::DiskFull
            | Self::PoolMove => !has_sentinels && !is_cluster,
            Self::RedisBusy
            | Self::MemoryFull
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
pub struct Fault {
    /// Its class.
    pub class: Class,
    /// Quiet time before it, in ms.
    pub after_ms: u64,
    /// How long it lasts, in ms.
    pub length_ms: u64,
    /// Chooses whom it meets, among those whom it can meet.
    pub target: usize,
    /// Chooses among the ways in which it can happen.
    pub variant: u32,
}

impl Fault {
    /// The fault of this class that belongs to a seed.
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
