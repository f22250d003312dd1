//! The state that all requests share.

use std::collections::BTreeMap;
use std::num::NonZero;
use std::sync::Arc;
use std::time::Duration;

use arc_swap::ArcSwap;
use tidegate_core::Namespace;
use tidegate_daemon::traces::Traces;
use tidegate_daemon::{ByteBudget, Readiness};
use tidegate_engine::{
    DurabilityTarget, Engine, EngineSettings, NamespaceShares, Pool, PublishSize, TokenForm,
};
use tidegate_store::Store;
use tokio::sync::Semaphore;

use crate::config::{ApiConfig, DurabilityConfig, JobDefaults, RequestLimits};
use crate::http::body::BodyReader;
use crate::http::drained_server::DrainedServer;
use crate::http::exchange::Exchange;
use crate::http::metrics::HttpMetrics;

/// The lists of a namespace that are read at once; the others wait. A page of 1 MiB takes the main thread milliseconds.
const LISTS_IN_FLIGHT: usize = 2;

/// The state of the daemon. Handlers get it as an `Arc`.
#[derive(Debug)]
pub(crate) struct App {
    /// The pools, the waiting consumers, the tokens and their rate limits.
    pub(crate) engine: Engine,
    /// The metrics of requests, and the checks behind `/readyz`.
    pub(crate) exchange: Arc<Exchange>,
    /// The longest wait of a consumer (`waiters.wait_max`).
    pub(crate) wait_max: Duration,
    pub(crate) request_limits: RequestLimits,
    /// The defaults of request parameters. SIGHUP can change them.
    job_defaults: ArcSwap<JobDefaults>,
    /// The durability that publishes wait for, by namespace.
    durability: DurabilityConfig,
    /// The limits for the body of one job. The limits on size and time apply to the ignored bodies of GET and DELETE,
    /// too.
    pub(crate) job_body: BodyReader,
    /// The limits for the body of a bulk publish.
    pub(crate) bulk_body: BodyReader,
    /// The server whose queues drain into this one; `None` = there is none.
    pub(crate) drained_server: Option<DrainedServer>,
    /// Where spans go; `None` = there are none.
    pub(crate) traces: Option<Traces>,
    /// Permits for parsing and writing large JSON: one less than there are processors, at least one.
    pub(crate) large_bodies: Arc<Semaphore>,
    /// Permits for reading lists.
    pub(crate) lists: NamespaceShares,
}

impl App {
    /// Creates the state. `stores` has one store for each pool; `admin_store` stores tokens, API keys
    /// and limits. Must be called inside a runtime.
    pub(crate) fn new(
        config: &ApiConfig,
        stores: BTreeMap<String, Store>,
        admin_store: &Store,
        readiness: Readiness,
    ) -> Self {
        let engine = Engine::new(&settings(config), stores, admin_store);
        engine.namespaces.set_defaults(config.namespace_limits);
        let metrics = HttpMetrics::new(&engine, config.metrics.queues_max);
        let requests = config.requests.clone();
        let budget = ByteBudget::new(requests.bodies_bytes_max());
        let reading = |bytes_max| BodyReader {
            bytes_max,
            timeout: requests.body_timeout,
            budget: budget.clone(),
        };
        let processors = std::thread::available_parallelism().map_or(1, NonZero::get);
        Self {
            engine,
            exchange: Arc::new(Exchange {
                metrics,
                readiness,
                unread: ByteBudget::new(requests.unread_bytes_max),
                unread_by_operators: ByteBudget::new(requests.unread_bytes_max / 8),
            }),
            wait_max: config.waiters.wait_max,
            job_defaults: ArcSwap::from_pointee(config.job),
            durability: config.durability.clone(),
            job_body: reading(requests.job_bytes_max),
            bulk_body: reading(requests.bulk_bytes_max),
            drained_server: None,
            traces: None,
            large_bodies: Arc::new(Semaphore::new(processors.saturating_sub(1).max(1))),
            lists: NamespaceShares::new(LISTS_IN_FLIGHT),
            request_limits: requests,
        }
    }

    /// The same state, which sends requests about jobs that it does not have on to `drained_server.url`.
    pub(crate) fn with_drained_server(self, drained_server: Option<DrainedServer>) -> Self {
        Self {
            drained_server,
            ..self
        }
    }

    /// The same state, which sends spans to `traces`.
    pub(crate) fn with_traces(self, traces: Option<Traces>) -> Self {
        Self { traces, ..self }
    }

    /// The current defaults of request parameters.
    pub(crate) fn job_defaults(&self) -> JobDefaults {
        **self.job_defaults.load()
    }

    /// Replaces the defaults of request parameters for all later requests.
    pub(crate) fn set_job_defaults(&self, defaults: JobDefaults) {
        self.job_defaults.store(Arc::new(defaults));
    }

    /// The durability that publishes to a namespace of a pool wait for, and for how long.
    pub(crate) fn durability_target(&self, pool: &Pool, namespace: &Namespace) -> DurabilityTarget {
        DurabilityTarget {
            durability: self.durability.for_namespace(&pool.name, namespace),
            timeout: self.durability.timeout,
        }
    }

    /// The pool of this name; the empty name means the default pool. `None` if it is not configured.
    pub(crate) fn pool(&self, name: &str) -> Option<&Arc<Pool>> {
        self.engine.pool_or_default(name)
    }
}

/// The settings of the engine. The check of the settings has made sure that no pool moves to a moving pool.
fn settings(config: &ApiConfig) -> EngineSettings {
    let moves = config.pool.iter().filter_map(|(name, pool)| {
        let target = pool.migrate_to.clone()?;
        Some((name.clone(), target))
    });
    EngineSettings {
        moves: moves.collect(),
        backlog_max: PublishSize {
            jobs: config.requests.backlog_jobs_max,
            bytes: config.requests.backlog_bytes_max,
        },
        poll_interval: config.waiters.poll_interval,
        waiting_max: config.waiters.in_process_max,
        waiting_per_token_max: config.waiters.per_token_max,
        waiting_seats_per_token_max: config.waiters.seats_per_token_max,
        token_form: match config.hash_tokens {
            true => TokenForm::Hashed,
            false => TokenForm::Plain,
        },
        skip_token_checks: config.skip_token_checks,
        queues_max: config.metrics.queues_max,
        metrics_refresh: config.metrics.refresh,
    }
}
