//! The handle of a deployment. All verbs are its methods.

use std::sync::atomic::AtomicBool;
use std::sync::{Arc, OnceLock, PoisonError, RwLock};

use tidegate_core::keys::{BucketKeys, DeploymentKeys};
use tidegate_core::{JobId, Lane, Namespace, NamespaceLimits, QueueKey, SlotWidth, placement};

use crate::cold_tier::ColdTier;
use crate::config::StoreConfig;
use crate::link::Link;
use crate::namespace_limits::LimitsByNamespace;
use crate::waiter_id::WaiterId;

/// A Redis deployment that stores jobs. Cheap to clone; clones share their connections.
#[derive(Debug, Clone)]
pub struct Store {
    pub(crate) inner: Arc<StoreInner>,
    pub(crate) now_ms: Option<u64>,
}

#[derive(Debug)]
pub(crate) struct StoreInner {
    pub(crate) config: StoreConfig,
    /// Computed once, since each call needs some of them.
    pub(crate) buckets: DeploymentKeys,
    pub(crate) slot_width: SlotWidth,
    pub(crate) link: Link,
    /// The id in the stamp of the deployment, once it is connected.
    pub(crate) deployment_id: OnceLock<String>,
    /// The cold tier, once the deployment is connected.
    pub(crate) cold: OnceLock<ColdTier>,
    /// The id with which this process is registered as waiting for jobs.
    pub(crate) waiter: WaiterId,
    pub(crate) namespace_limits: RwLock<Arc<LimitsByNamespace>>,
    /// Whether [`Store::until_durable`] will be called for publishes.
    pub(crate) expects_durable: AtomicBool,
}

impl Store {
    /// Sets the limits for all later calls of this process.
    pub fn set_namespace_limits(&self, limits: Arc<LimitsByNamespace>) {
        let current = self.inner.namespace_limits.write();
        *current.unwrap_or_else(PoisonError::into_inner) = limits;
    }

    /// The limits of a namespace. A process that creates nothing on behalf of clients has none.
    pub fn namespace_limits(&self, namespace: &Namespace) -> NamespaceLimits {
        let limits = self.inner.namespace_limits.read();
        limits.unwrap_or_else(PoisonError::into_inner).of(namespace)
    }

    /// The argument `max_queues` of scripts that publish.
    pub(crate) fn max_queues(&self, namespace: &Namespace) -> u64 {
        let limits = self.namespace_limits(namespace);
        limits.queues_in_bucket(self.buckets())
    }

    /// The same store with a fixed clock, for tests of the scripts: calls are executed as at `now_ms`. Connections are
    /// shared.
    pub fn at(&self, now_ms: u64) -> Self {
        Self {
            inner: Arc::clone(&self.inner),
            now_ms: Some(now_ms),
        }
    }

    /// The number of buckets of the deployment.
    pub fn buckets(&self) -> u32 {
        self.inner.config.buckets
    }

    /// The numbers of all buckets.
    pub fn all_buckets(&self) -> impl Iterator<Item = u16> + use<> {
        (0..self.buckets()).filter_map(|bucket| u16::try_from(bucket).ok())
    }

    /// The keys of a bucket of the deployment.
    pub(crate) fn keys(&self, bucket: u16) -> &BucketKeys {
        self.inner.buckets.keys(bucket)
    }

    pub fn bucket_of<'a>(&self, lane: impl Into<Lane<'a>>) -> u16 {
        let Lane { queue, number } = lane.into();
        placement::bucket_of(queue, number, self.buckets())
    }

    /// The bucket of something whose name is `namespace/name` and that is in no queue.
    pub(crate) fn bucket_of_name(&self, name: &str) -> u16 {
        placement::bucket_of_name(name, self.buckets())
    }

    /// The address of the server that has a bucket; `None` if no reachable server does. On a cluster it changes when
    /// slots move or a replica is promoted.
    pub fn server_of(&self, bucket: u16) -> Option<Arc<str>> {
        // The prefix contains the hash tag.
        self.server_of_key(self.keys(bucket).prefix())
    }

    /// The address of the server that has this key of the deployment, if known.
    pub fn server_of_key(&self, key: &str) -> Option<Arc<str>> {
        let server = self.inner.link.server_of(key)?;
        Some(Arc::clone(&server.address))
    }

    /// The buckets on the same server as this one, itself among them.
    pub fn buckets_beside(&self, bucket: u16) -> Vec<u16> {
        let server = self.server_of(bucket);
        self.all_buckets()
            .filter(|other| self.server_of(*other) == server)
            .collect()
    }

    /// The lane of a queue, among its first `lanes`, that is in this bucket, if any.
    pub fn lane_in(&self, bucket: u16, queue: &QueueKey, lanes: u16) -> Option<u16> {
        placement::lane_in(bucket, queue, lanes, self.buckets())
    }

    /// Whether this deployment has the bucket of an id. Ids come from clients, so it may not.
    pub(crate) fn has_bucket_of(&self, id: JobId) -> bool {
        u32::from(id.bucket()) < self.buckets()
    }
}
