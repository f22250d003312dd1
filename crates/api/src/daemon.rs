//! The life of the process: connect, bind, serve, drain.

use std::collections::BTreeMap;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;

use ::metrics::{describe_gauge, gauge};
use tidegate_launch::{Process, redis_check};
use tidegate_service::{
    BindError, ByteBudget, Drained, ListenLimits, Listener, TooFewFiles, metrics, routed,
};
use tidegate_store::{ConnectError, PoolError, Store};
use tokio::time::{Duration, Instant, timeout_at};
use tokio_util::sync::CancellationToken;

use crate::admin::{self, Accounts};
use crate::app::App;
use crate::config::{Config, DEFAULT_POOL};
use crate::front;
use crate::metrics::{describe, histograms, page};
use crate::open_files::files_needed;
use crate::revocation::follow_tokens;

/// Whoever looks at the admin port while the daemon stops has this much longer.
const ADMIN_DRAIN: Duration = Duration::from_millis(500);

/// Jobs of connections that were cut have this much longer to get back.
const SETTLE_MIN: Duration = Duration::from_secs(1);

/// Why the daemon did not start.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// The system does not say which address a listener has.
    #[error("failed to read a bound address: {0}")]
    LocalAddress(io::Error),
    /// Metrics cannot be recorded.
    #[error("metrics: {0}")]
    Metrics(String),
    /// A pool cannot be used.
    #[error(transparent)]
    Pool(#[from] PoolError),
    /// An address cannot be listened on.
    #[error(transparent)]
    Bind(#[from] BindError),
    /// There are not enough open files.
    #[error(transparent)]
    Files(#[from] TooFewFiles),
    /// The Redis that keeps the tokens cannot be used.
    #[error("admin_store: {0}")]
    AdminStore(ConnectError),
}

/// Runs the daemon until a signal asks it to stop and its requests have ended.
///
/// # Errors
/// It did not start. Once it has started nothing ends it but a signal.
pub async fn run(config: Config, process: Process) -> Result<(), StartError> {
    let stop = process.stop.clone();
    let recorded =
        metrics::init(&histograms()).map_err(|error| StartError::Metrics(error.to_string()))?;
    describe();
    describe_in_flight();
    let limits = files_needed(&config).obtain()?;
    let connecting = Store::connect_pools(&config.pool, config.connect_patience);
    let Some(stores) = stop.asked.run_until_cancelled(connecting).await else {
        return Ok(());
    };
    let stores = stores?;
    Store::check_moves(&config.pool, &stores).await?;
    check_durability(&config, &stores).await?;
    let connecting = admin_store(&config, &stores);
    let Some(admin_store) = stop.asked.run_until_cancelled(connecting).await else {
        return Ok(());
    };
    let admin_store = admin_store?;
    let public = bind("public", "listen", config.listen, limits).await?;
    let headers = ByteBudget::new(config.requests.headers_bytes_max());
    let public = public.with_header_budget(headers.clone());
    let admin = bind(
        "admin",
        "admin_listen",
        config.admin_listen,
        ListenLimits::default(),
    );
    let admin = admin.await?.displacing_waiting();
    let pools = stores
        .iter()
        .map(|(pool, store)| redis_check(format!("pool {pool}"), store.clone()));
    let mut checks: Vec<_> = pools.collect();
    if config.admin_store.is_some() {
        checks.push(redis_check("admin_store", admin_store.clone()));
    }
    let readiness = process.readiness(checks);
    let app = Arc::new(App::new(&config, stores, &admin_store, readiness));
    let accounts = Accounts::new(&config.accounts);
    if config.skip_token_checks {
        tracing::warn!("skip_token_checks: everybody can use every queue, with any token or none");
    }
    tracing::info!(listen = %local(&public)?, admin = %local(&admin)?, "ready");

    let admin_stop = CancellationToken::new();
    tokio::spawn(recorded.clone().upkeep(admin_stop.clone()));
    let shown = Arc::clone(&app);
    let metrics = recorded.with(move || {
        gauge!(IN_FLIGHT, "what" => "header").set(headers.used() as f64);
        gauge!(IN_FLIGHT, "what" => "answer").set(shown.unread.used() as f64);
        gauge!(IN_FLIGHT, "what" => "body").set(shown.job_body.budget.used() as f64);
        let app = Arc::clone(&shown);
        async move { page(&app).await }
    });
    let admin_router = admin::router(local(&admin)?, Arc::clone(&app), accounts.clone(), metrics);
    let admin_served =
        tokio::spawn(admin.serve(routed(admin_router), admin_stop.clone(), ADMIN_DRAIN));
    let reloaded = Arc::clone(&app);
    process.started(move |config: &Config| {
        reloaded.set_job_defaults(config.job);
        accounts.replace(&config.accounts);
    });
    app.read_lanes().await;
    serve(&app, public, stop.begun, config.drain_timeout).await;
    admin_stop.cancel();
    // The last look at the metrics may be cut.
    let _ = admin_served.await;
    tracing::info!("stopped");
    Ok(())
}

/// What clients have sent and is not answered yet, and answers that they have not read.
const IN_FLIGHT: &str = "tidegate_http_in_flight_bytes";

fn describe_in_flight() {
    describe_gauge!(
        IN_FLIGHT,
        "Size of incomplete headers and of bodies of requests in flight, as far as they count for requests.in_flight_bytes_max, and of unread answers, as far as they count for requests.unread_bytes_max, in bytes."
    );
}

/// Serves until told to stop, then winds up: waiting consumers are answered, requests finish, jobs on
/// their way back arrive; all of it within `drain_timeout`.
async fn serve(app: &Arc<App>, public: Listener, stop: CancellationToken, drain_timeout: Duration) {
    let end = CancellationToken::new();
    tokio::spawn(app.waiters.clone().wake(end.clone()));
    if !app.skip_token_checks {
        tokio::spawn(follow_tokens(Arc::clone(app), end.clone()));
    }
    let closing = tokio::spawn(close_lines(Arc::clone(app), stop.clone()));
    let front = Arc::clone(app);
    let answer = move |request, peer| front::answer(&front, request, peer);
    let drained = public.serve(answer, stop, drain_timeout).await;
    if let Drained::Cut(connections) = drained {
        tracing::warn!(connections, "cut connections that did not end in time");
    }
    end.cancel();
    // A task that cannot panic.
    let stopped_at = closing.await.unwrap_or_else(|_| Instant::now());
    let deadline = (stopped_at + drain_timeout).max(Instant::now() + SETTLE_MIN);
    if timeout_at(deadline, app.waiters.settled()).await.is_err() {
        tracing::warn!("jobs on their way back did not arrive in time");
    }
    if timeout_at(deadline, app.limits.settled()).await.is_err() {
        tracing::warn!("units of rate limits on their way back did not arrive in time");
    }
}

async fn close_lines(app: Arc<App>, stop: CancellationToken) -> Instant {
    stop.cancelled().await;
    app.waiters.close();
    Instant::now()
}

/// Refuses a pool that cannot tell when jobs are as safe as the settings want them.
async fn check_durability(
    config: &Config,
    stores: &BTreeMap<String, Store>,
) -> Result<(), PoolError> {
    for (pool, store) in stores {
        for durability in config.durability.asked_of(pool, &config.pool) {
            let checked = store.check_durability(durability).await;
            checked.map_err(|source| PoolError {
                pool: pool.clone(),
                source,
            })?;
        }
    }
    Ok(())
}

/// The store that keeps tokens and limits.
async fn admin_store(
    config: &Config,
    stores: &BTreeMap<String, Store>,
) -> Result<Store, StartError> {
    match &config.admin_store {
        // Checked to be there with the configuration.
        None => Ok(stores[DEFAULT_POOL].clone()),
        Some(settings) => {
            let connecting = Store::connect_within(settings, config.connect_patience);
            connecting.await.map_err(StartError::AdminStore)
        }
    }
}

async fn bind(
    name: &'static str,
    key: &'static str,
    address: SocketAddr,
    limits: ListenLimits,
) -> Result<Listener, BindError> {
    let bound = Listener::bind(name, address, limits).await;
    bound.map_err(|source| BindError {
        key,
        address,
        source,
    })
}

fn local(listener: &Listener) -> Result<SocketAddr, StartError> {
    listener.local_addr().map_err(StartError::LocalAddress)
}
