//! Runs the daemon: connects to Redis, binds the listeners, serves requests, drains on a stop.

use std::collections::BTreeMap;
use std::sync::Arc;

use tidegate_daemon::metrics::Metrics;
use tidegate_daemon::{
    BindError, ByteBudget, DrainResult, ListenLimits, Listener, OpenFileLimitError, ServingThreads,
};
use tidegate_daemon::{DaemonContext, redis_check};
use tidegate_store::{ConnectError, PoolError, Store};
use tokio::time::{Duration, Instant, timeout_at};
use tokio_util::sync::CancellationToken;

use crate::accounts::Accounts;
use crate::admin;
use crate::app::App;
use crate::config::{ApiConfig, DEFAULT_POOL};
use crate::front;
use crate::http::drained_server::DrainedServer;
use crate::metrics;
use crate::open_files::files_needed;
use crate::youzan::YouzanListener;

/// The time that requests on the admin port have to finish after the public listener has stopped.
const ADMIN_DRAIN: Duration = Duration::from_millis(500);

/// The least time, after the public listener has stopped, to release the reserved jobs of connections that were cut.
const SETTLE_MIN: Duration = Duration::from_secs(1);

/// Why the daemon did not start.
#[derive(Debug, thiserror::Error)]
pub enum ApiStartError {
    /// A pool could not be connected to, or its Redis failed a check.
    #[error(transparent)]
    Pool(#[from] PoolError),
    /// A listener could not be bound.
    #[error(transparent)]
    Bind(#[from] BindError),
    /// The limit of open files leaves none for clients.
    #[error(transparent)]
    Files(#[from] OpenFileLimitError),
    /// A thread could not be started.
    #[error(
        "threads: failed to start the threads that serve requests: {0}; set it to a lower number"
    )]
    Threads(std::io::Error),
    /// The certificate authorities of the system cannot be read.
    #[error("drained_server: {0}")]
    Certificates(String),
    /// The Redis that stores tokens and limits could not be connected to, or failed a check.
    #[error("admin_store: {0}")]
    AdminStore(ConnectError),
}

/// Runs the daemon until a signal stops it and its requests have ended or were cut.
///
/// # Errors
/// The daemon did not start. Once started, it ends without an error.
pub async fn run(config: ApiConfig, process: DaemonContext) -> Result<(), ApiStartError> {
    let stop = process.stop.clone();
    let limits = files_needed(&config).raise_limit()?;
    let connecting = connect(&config);
    let Some(connected) = stop.requested.run_until_cancelled(connecting).await else {
        return Ok(());
    };
    let (stores, admin_store) = connected?;
    let drained_server = config.drained_server.uri().map(DrainedServer::new);
    let drained_server = drained_server
        .transpose()
        .map_err(ApiStartError::Certificates)?;
    let threads = ServingThreads::start(config.threads.into()).map_err(ApiStartError::Threads)?;
    let public = Listener::bind("public", "listen", config.listen, limits).await?;
    let public = public.on_threads(&threads);
    let headers = ByteBudget::new(config.requests.headers_bytes_max());
    let public = public.with_header_budget(headers.clone());
    let youzan = YouzanListener::bind(&config, &headers, &threads).await?;
    let admin = Listener::bind(
        "admin",
        "admin_listen",
        config.admin_listen,
        ListenLimits::default(),
    );
    let admin = admin.await?.replacing_longest_waiting();
    let pools = stores
        .iter()
        .map(|(pool, store)| redis_check(format!("pool {pool}"), store.clone()));
    let mut checks: Vec<_> = pools.collect();
    if config.admin_store.is_some() {
        checks.push(redis_check("admin_store", admin_store.clone()));
    }
    let readiness = process.not_ready_until_started();
    readiness.mark_started(checks);
    let app = App::new(&config, stores, &admin_store, readiness);
    let app = app.with_traces(process.traces.clone());
    let app = Arc::new(app.with_drained_server(drained_server));
    let accounts = Accounts::new(&config.accounts, &config.account_roles);
    if config.skip_token_checks {
        tracing::warn!("skip_token_checks: any client can use every queue, with any token or none");
    }
    tracing::info!(listen = %public.address(), admin = %admin.address(), "ready");

    let admin_stop = CancellationToken::new();
    let scraped = Arc::clone(&app);
    let metrics = Metrics::with_page(move || {
        let (app, headers) = (Arc::clone(&scraped), headers.clone());
        async move { metrics::scraped(&app, &headers).await }
    });
    let answer = admin::handler(admin.address(), Arc::clone(&app), accounts.clone(), metrics);
    let admin_served = tokio::spawn(admin.serve(answer, admin_stop.clone(), ADMIN_DRAIN));
    let reloaded = Arc::clone(&app);
    process.mark_started(move |config: &ApiConfig| {
        reloaded.set_job_defaults(config.job);
        let namespaces = &reloaded.engine.namespaces;
        namespaces.set_defaults(config.namespace_limits);
        accounts.replace(&config.accounts, &config.account_roles);
    });
    app.engine.read_tables().await;
    let ports = (public, youzan);
    serve(&app, ports, stop.drain_begun, config.drain_timeout).await;
    admin_stop.cancel();
    // Requests on the admin port that take longer than ADMIN_DRAIN are cut; the public port does not depend on them.
    let _ = admin_served.await;
    tracing::info!("stopped");
    Ok(())
}

/// Serves until `stop` is cancelled. Then waiting consumers are answered, other requests finish, reserved jobs and
/// units of rate limits that were not used are released, and no doorbell rings this process any more. All of this
/// takes at most `drain_timeout`, or [`SETTLE_MIN`] from the end of the last request, if that is later.
async fn serve(
    app: &Arc<App>,
    (public, youzan): (Listener, YouzanListener),
    stop: CancellationToken,
    drain_timeout: Duration,
) {
    let end = CancellationToken::new();
    let followed = Arc::clone(app);
    let ended = end.clone();
    tokio::spawn(async move { followed.engine.follow(ended).await });
    let closing = tokio::spawn(close_waiters(Arc::clone(app), stop.clone()));
    let front = Arc::clone(app);
    let answer = move |request, peer| front::answer(&front, request, peer);
    let (drained, youzan_drained) = tokio::join!(
        public.serve(answer, stop.clone(), drain_timeout),
        youzan.serve(app, stop, drain_timeout),
    );
    for drained in [drained, youzan_drained] {
        if let DrainResult::ConnectionsCut(connections) = drained {
            tracing::warn!(
                connections,
                "cut connections whose requests did not finish within drain_timeout"
            );
        }
    }
    // The task does not panic.
    let stopped_at = closing.await.unwrap_or_else(|_| Instant::now());
    let deadline = (stopped_at + drain_timeout).max(Instant::now() + SETTLE_MIN);
    if timeout_at(deadline, app.engine.waiters.wait_idle())
        .await
        .is_err()
    {
        tracing::warn!(
            "timed out releasing reserved jobs during shutdown; their leases expire instead"
        );
    }
    end.cancel();
    if timeout_at(deadline, app.engine.limits.wait_idle())
        .await
        .is_err()
    {
        tracing::warn!(
            "timed out giving back units of rate limits during shutdown; they stay used until their interval ends"
        );
    }
}

async fn close_waiters(app: Arc<App>, stop: CancellationToken) -> Instant {
    stop.cancelled().await;
    app.engine.waiters.close();
    Instant::now()
}

/// Connects to all pools and to the store of tokens and limits, and checks them. Each step waits for up to
/// `connect_patience`.
async fn connect(config: &ApiConfig) -> Result<(BTreeMap<String, Store>, Store), ApiStartError> {
    let patience = config.connect_patience;
    let stores = Store::connect_pools(&config.pool, patience).await?;
    Store::check_moves(&config.pool, &stores, patience).await?;
    check_durability(config, &stores).await?;
    let admin_store = admin_store(config, &stores).await?;
    Ok((stores, admin_store))
}

/// Checks that the Redis of each pool can confirm every durability that the settings request of it.
async fn check_durability(
    config: &ApiConfig,
    stores: &BTreeMap<String, Store>,
) -> Result<(), PoolError> {
    for (pool, store) in stores {
        for durability in config.durability.required_at(pool, &config.pool) {
            let checked = store
                .check_durability_within(durability, config.connect_patience)
                .await;
            checked.map_err(|source| PoolError {
                pool: pool.clone(),
                source,
            })?;
        }
    }
    Ok(())
}

/// The store of tokens and limits: `admin_store`, or the default pool.
async fn admin_store(
    config: &ApiConfig,
    stores: &BTreeMap<String, Store>,
) -> Result<Store, ApiStartError> {
    match &config.admin_store {
        // The check of the settings requires the default pool.
        None => Ok(stores[DEFAULT_POOL].clone()),
        Some(settings) => {
            let connecting = Store::connect_within(settings, config.connect_patience);
            connecting.await.map_err(ApiStartError::AdminStore)
        }
    }
}
