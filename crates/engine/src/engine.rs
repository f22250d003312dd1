//! The state that all front doors share, created from the settings.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use tidegate_core::Namespace;
use tidegate_core::v1::relay::RelayConfig;
use tidegate_store::{Store, Table};
use tokio::time::Instant;

use crate::access::api_keys::ApiKeyCache;
use crate::access::credential::Credential;
use crate::access::limits::RateLimiter;
use crate::access::tokens::{TokenCache, TokenForm};
use crate::consume::waiters::{WaitLimits, WaitPermit, Waiters};
use crate::consume::workers::KnownWorkers;
use crate::error::EngineError;
use crate::metrics::storage_failure::{self, record_store_error};
use crate::namespaces::NamespaceTable;
use crate::pool::Pool;
use crate::publish::size::PublishSize;

/// The required pool: the pool of requests whose token names no pool.
pub const DEFAULT_POOL: &str = "default";

#[derive(Debug, Clone)]
pub struct EngineSettings {
    /// The target of each pool that moves: new jobs are stored there. A target must not move itself.
    pub moves: BTreeMap<String, String>,
    /// The most that may wait to be stored, for each pool (`requests.backlog_jobs_max`, `requests.backlog_bytes_max`).
    pub backlog_max: PublishSize,
    /// The longest time between two checks of a queue that a consumer waits for (`waiters.poll_interval`).
    pub poll_interval: Duration,
    /// The most waiting consumers (`waiters.in_process_max`).
    pub waiting_max: usize,
    /// The most waiting consumers with the same token (`waiters.per_token_max`).
    pub waiting_per_token_max: usize,
    /// The most seats of waiting consumers with the same token (`waiters.seats_per_token_max`).
    pub waiting_seats_per_token_max: usize,
    /// The form in which tokens are stored.
    pub token_form: TokenForm,
    /// Whether requests are accepted with any token or none.
    pub skip_token_checks: bool,
    /// The most queues of a pool that have metrics of their own (`metrics.queues_max`).
    pub queues_max: usize,
    /// How long figures that were read from Redis on request are cached (`metrics.refresh`).
    pub metrics_refresh: Duration,
}

/// The pools, waiting consumers, tokens, API keys and limits that all front doors share.
#[derive(Debug)]
pub struct Engine {
    pools: BTreeMap<Arc<str>, Arc<Pool>>,
    /// The waiting consumers.
    pub waiters: Waiters,
    /// The workers that have given their names.
    pub workers: Arc<KnownWorkers>,
    /// The limits on the number of waiting consumers.
    pub room: WaitLimits,
    /// The tokens, cached.
    pub tokens: TokenCache,
    /// The API keys, cached.
    pub keys: ApiKeyCache,
    /// The relays that are set through the API.
    pub relays: Table<RelayConfig>,
    /// The limits of namespaces.
    pub namespaces: NamespaceTable,
    /// The rate limits of tokens.
    pub limits: RateLimiter,
    /// Whether requests are accepted with any token or none.
    pub skip_token_checks: bool,
    pub(crate) queues_max: usize,
}

impl Engine {
    /// Creates the engine. `stores` has one store for each pool; `admin_store` stores tokens, API keys,
    /// relays and limits. Must be called inside a runtime.
    pub fn new(
        settings: &EngineSettings,
        stores: BTreeMap<String, Store>,
        admin_store: &Store,
    ) -> Self {
        storage_failure::register();
        let namespaces = NamespaceTable::new(admin_store, stores.values().cloned().collect());
        let pools = pools(stores, settings);
        Self {
            waiters: Waiters::new(&pools, settings.poll_interval),
            workers: Arc::default(),
            room: WaitLimits::new(
                settings.waiting_max,
                settings.waiting_per_token_max,
                settings.waiting_seats_per_token_max,
            ),
            pools,
            tokens: TokenCache::new(admin_store.tokens(), settings.token_form),
            keys: ApiKeyCache::new(admin_store.api_keys()),
            relays: admin_store.relays(),
            namespaces,
            limits: RateLimiter::new(admin_store.limits()),
            skip_token_checks: settings.skip_token_checks,
            queues_max: settings.queues_max,
        }
    }

    /// Reads the quotas of namespaces, and the lanes and policies of all pools before the first request, which would otherwise check lane 0 only,
    /// and could get jobs of a paused queue. If reading fails, [`Self::follow`] retries once a second.
    pub async fn read_tables(&self) {
        if let Err(error) = self.namespaces.read().await {
            record_store_error(&error);
        }
        for pool in self.pools() {
            if let Err(error) = pool.lanes.read().await {
                record_store_error(&error);
            }
            if let Err(error) = pool.policies.read().await {
                record_store_error(&error);
            }
        }
    }

    /// Counts one more consumer of a namespace that waits in `seats` queues with this credential, which expires at
    /// `ends_at`.
    ///
    /// # Errors
    /// A limit of the process, of the namespace or of the credential is reached.
    pub fn take_wait_room(
        &self,
        namespace: &Namespace,
        credential: impl Into<Credential>,
        ends_at: Option<Instant>,
        seats: usize,
    ) -> Result<WaitPermit, EngineError> {
        let limits = self.namespaces.limits(namespace);
        let max = limits.waiting_consumers.unwrap_or(u64::MAX);
        self.room
            .take(Some((namespace, max)), credential, ends_at, seats)
    }

    /// The pool of this name; `None` if it is not configured.
    pub fn pool(&self, name: &str) -> Option<&Arc<Pool>> {
        self.pools.get(name)
    }

    /// The pool of this name; the empty name means [`DEFAULT_POOL`]. `None` if it is not configured.
    pub fn pool_or_default(&self, name: &str) -> Option<&Arc<Pool>> {
        self.pool(if name.is_empty() { DEFAULT_POOL } else { name })
    }

    /// All pools, in the order of their names.
    pub fn pools(&self) -> impl Iterator<Item = &Arc<Pool>> {
        self.pools.values()
    }
}

/// Creates the pools. Pools that do not move are created first, as the others refer to them; the check of the settings
/// has made sure that no pool moves to a pool that moves itself.
fn pools(
    stores: BTreeMap<String, Store>,
    settings: &EngineSettings,
) -> BTreeMap<Arc<str>, Arc<Pool>> {
    let target = |name: &str| settings.moves.get(name).map(String::as_str);
    let (moving, staying): (Vec<_>, Vec<_>) = stores
        .into_iter()
        .partition(|(name, _)| target(name).is_some());
    let mut pools: BTreeMap<Arc<str>, Arc<Pool>> = BTreeMap::new();
    for (name, store) in staying.into_iter().chain(moving) {
        let moves_to = target(&name).and_then(|to| pools.get(to).cloned());
        let name: Arc<str> = name.into();
        if let Some(to) = &moves_to {
            tracing::info!(pool = %name, to = %to.name, "the pool moves: new jobs are stored in the other pool");
        }
        let pool = Pool::new(
            Arc::clone(&name),
            store,
            settings.queues_max,
            settings.backlog_max,
            settings.metrics_refresh,
            moves_to,
        );
        pools.insert(name, Arc::new(pool));
    }
    pools
}
