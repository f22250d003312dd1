//! The only crate that speaks to Redis.
//!
//! One verb is one script is one atomic change: each file in `verbs/` has a Lua file of the same name
//! in `lua/`, whose header is the contract. What may happen in normal flow is a value
//! ([`Acked::AlreadyGone`]); [`StoreError`] is for what should not happen.
//!
//! A call is sent once. Where the connection breaks after it was sent, its outcome is unknown: the
//! call fails and is never repeated silently.

mod audit;
mod bodies;
mod calls;
mod clocks;
mod config;
mod connect;
mod durability;
mod error;
mod lanes;
mod limits;
mod link;
mod measures;
mod permissions;
mod pools;
mod prelude;
mod reply;
mod script;
mod server_buckets;
mod server_check;
mod server_figures;
mod server_times;
mod subscription;
mod tokens;
mod verbs;

use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Instant;

use futures_util::future::try_join_all;
use tidegate_core::keys::{BucketKeys, Buckets};
use tidegate_core::{JobId, Lane, QueueKey, SlotWidth, placement};

use link::Link;

pub use audit::{AuditEvent, AuditOptions, AuditSummary, Defect, Finding};
pub use bodies::SMALL_TRANSFER_BYTES_MAX;
pub use config::{DEFAULT_URL, StoreConfig, UnsafeServer};
pub use connect::ConnectError;
pub use durability::{Durability, NotDurable, Receipt};
pub use error::{StoreError, Unavailable};
pub use lanes::{LaneRows, Lanes};
pub use limits::{LimitCreated, LimitHolder, LimitSide, Limits, RateLimit, Unit, UnitTaken};
pub use measures::{HISTOGRAMS, describe_metrics};
pub use pools::{OPEN_FILES_OF_A_STORE, PoolError};
pub use server_buckets::ServerBuckets;
pub use server_check::Refusal;
pub use server_figures::ServerFigures;
pub use server_times::ServerTime;
pub use subscription::{Alarm, Alarms, Doorbell, Doorbells, PumpVerb};
pub use tokens::{TokenCreated, Tokens};
pub use verbs::{
    Acked, AllQueues, Cancelled, Claim, Done, LOAD_HINTS_MAX, Leased, ListedQueue, LoadedSlot,
    MOVE_TIMERS_MAX, MovedDue, PUBLISH_JOBS_MAX, Peeked, Published, QueuePage, Released, Reserved,
    Roster, SWEEP_CHUNKS_MAX, Stats, Swept,
};

/// One Redis deployment that holds jobs. Cheap to clone; clones share their connections.
#[derive(Debug, Clone)]
pub struct Store {
    inner: Arc<Inner>,
    now_ms: Option<u64>,
}

#[derive(Debug)]
struct Inner {
    config: StoreConfig,
    /// Made once: each call needs some.
    buckets: Buckets,
    slot_width: SlotWidth,
    link: Link,
    /// Whether any publish so far is to be confirmed with [`Store::until_durable`].
    expects_durable: AtomicBool,
}

impl Store {
    /// The same store with its clock stopped at `now_ms`, for tests of the scripts: what a call does
    /// at a given moment. Leases of buckets still run on the clock of Redis.
    #[must_use]
    pub fn at(&self, now_ms: u64) -> Self {
        Self {
            inner: Arc::clone(&self.inner),
            now_ms: Some(now_ms),
        }
    }

    /// How many buckets the deployment has.
    #[must_use]
    pub fn buckets(&self) -> u32 {
        self.inner.config.buckets
    }

    fn all_buckets(&self) -> impl Iterator<Item = u16> + use<> {
        (0..self.buckets()).filter_map(|bucket| u16::try_from(bucket).ok())
    }

    /// The keys of a bucket, which must be one of the deployment's.
    pub(crate) fn keys(&self, bucket: u16) -> &BucketKeys {
        self.inner.buckets.keys(bucket)
    }

    /// The bucket of a lane.
    #[must_use]
    pub fn bucket_of<'a>(&self, lane: impl Into<Lane<'a>>) -> u16 {
        let Lane { queue, number } = lane.into();
        placement::bucket_of(queue, number, self.buckets())
    }

    /// The address of the server that has a bucket, if anybody has it who can be reached. On a cluster it changes when slots
    /// move or a replica is promoted.
    #[must_use]
    pub fn server_of(&self, bucket: u16) -> Option<Arc<str>> {
        // The tag is in what all of its keys begin with.
        let server = self.inner.link.server_of(self.keys(bucket).prefix())?;
        Some(Arc::clone(&server.address))
    }

    /// The buckets on the same server as this one, itself among them.
    #[must_use]
    pub fn buckets_beside(&self, bucket: u16) -> Vec<u16> {
        let server = self.server_of(bucket);
        self.all_buckets()
            .filter(|other| self.server_of(*other) == server)
            .collect()
    }

    /// The lane of a queue, of its first `lanes`, that is in this bucket.
    #[must_use]
    pub fn lane_in(&self, bucket: u16, queue: &QueueKey, lanes: u16) -> Option<u16> {
        placement::lane_in(bucket, queue, lanes, self.buckets())
    }

    /// Whether an id can be that of a job of this deployment: ids come from outside.
    fn has_bucket_of(&self, id: JobId) -> bool {
        u32::from(id.bucket()) < self.buckets()
    }

    /// How many lanes the queues of this deployment have.
    #[must_use]
    pub fn lanes(&self) -> Lanes {
        Lanes::new(self.clone())
    }

    /// Asks Redis for a sign of life: every server that has keys.
    ///
    /// # Errors
    /// One of them does not answer in time, or some keys have no server.
    pub async fn ping(&self) -> Result<(), StoreError> {
        let servers = self.inner.link.servers();
        let pings = servers.into_iter().map(|server| async move {
            let session = server.session(self.inner.config.command_timeout);
            let (ping, began_at) = (redis::cmd("PING"), Instant::now());
            let answer = session.command::<String>(&ping).await;
            server.measures.called("PING", began_at, answer.is_ok());
            answer.inspect_err(|error| self.inner.link.failed(error))
        });
        try_join_all(pings).await?;
        match self.inner.link.is_whole() {
            true => Ok(()),
            false => Err(StoreError::not_ready(
                "some slots of the cluster have no primary".to_owned(),
            )),
        }
    }

    /// The access tokens kept in this deployment.
    #[must_use]
    pub fn tokens(&self) -> Tokens {
        Tokens::new(self.clone())
    }

    /// The rate limits kept in this deployment.
    #[must_use]
    pub fn limits(&self) -> Limits {
        Limits::new(self.clone())
    }
}
