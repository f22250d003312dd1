//! The life of the process: connect, bind, serve, drain.

use std::collections::BTreeMap;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;

use tidegate_service::{Drained, ListenLimits, Listener, metrics, stop_on_signals};
use tidegate_store::{ConnectError, Store, StoreConfig};
use tokio::time::{Duration, Instant, timeout_at};
use tokio_util::sync::CancellationToken;

use crate::admin;
use crate::app::App;
use crate::config::{Config, DEFAULT_POOL};
use crate::front::Front;
use crate::metrics::{HISTOGRAMS, describe};

/// Whoever looks at the admin port while the daemon stops has this much longer.
const ADMIN_DRAIN: Duration = Duration::from_millis(500);

/// Jobs of connections that were cut have this much longer to get back.
const SETTLE_MIN: Duration = Duration::from_secs(1);

/// Why the daemon did not start.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// The settings make no sense.
    #[error("configuration: {0}")]
    Config(String),
    /// The operating system refused something.
    #[error("{doing}: {source}")]
    Io {
        /// What was tried.
        doing: String,
        /// What it said.
        source: io::Error,
    },
    /// Metrics cannot be recorded.
    #[error("metrics: {0}")]
    Metrics(String),
    /// A Redis deployment cannot be used.
    #[error("{name}: {source}")]
    Redis {
        /// Where it is in the settings.
        name: String,
        /// Why, and what to do about it.
        source: ConnectError,
    },
}

/// Runs the daemon until a signal asks it to stop and its requests have ended.
///
/// # Errors
/// It did not start. Once it has started nothing ends it but a signal.
pub async fn run(config: Config) -> Result<(), StartError> {
    config.check().map_err(StartError::Config)?;
    let stop = stop_on_signals().map_err(io_error("signals"))?;
    let recorded =
        metrics::init(&HISTOGRAMS).map_err(|error| StartError::Metrics(error.to_string()))?;
    describe();
    let Some(stores) = connect_all(&config, &stop).await? else {
        return Ok(());
    };
    let Some(admin_store) = admin_store(&config, &stores, &stop).await? else {
        return Ok(());
    };
    let public = bind("public", config.listen, config.connections.clone()).await?;
    let admin = bind("admin", config.admin_listen, ListenLimits::default()).await?;
    let app = Arc::new(App::new(&config, stores, &admin_store));
    tracing::info!(listen = %local(&public)?, admin = %local(&admin)?, "ready");

    let admin_stop = CancellationToken::new();
    tokio::spawn(recorded.clone().upkeep(admin_stop.clone()));
    let admin_router = admin::router(Arc::clone(&app), &config.accounts, recorded);
    let admin_served = tokio::spawn(admin.serve(admin_router, admin_stop.clone(), ADMIN_DRAIN));
    serve(&app, public, stop, config.drain_timeout).await;
    admin_stop.cancel();
    // The last look at the metrics may be cut.
    let _ = admin_served.await;
    tracing::info!("stopped");
    Ok(())
}

/// Serves until told to stop, then winds up: waiting consumers are answered, requests finish, jobs on
/// their way back arrive; all of it within `drain_timeout`.
async fn serve(app: &Arc<App>, public: Listener, stop: CancellationToken, drain_timeout: Duration) {
    let end = CancellationToken::new();
    tokio::spawn(app.waiters.clone().wake(end.clone()));
    let closing = tokio::spawn(close_lines(Arc::clone(app), stop.clone()));
    let front = Front::new(Arc::clone(app));
    let service = tower::service_fn(move |request| front.answer(request));
    let drained = public.serve(service, stop, drain_timeout).await;
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

/// The stores of all pools; nothing if the process was told to stop meanwhile.
async fn connect_all(
    config: &Config,
    stop: &CancellationToken,
) -> Result<Option<BTreeMap<String, Store>>, StartError> {
    let mut stores = BTreeMap::new();
    for (pool, settings) in &config.pool {
        let name = format!("pool {pool}");
        match connect(name, settings, config.connect_patience, stop).await? {
            None => return Ok(None),
            Some(store) => stores.insert(pool.clone(), store),
        };
    }
    Ok(Some(stores))
}

/// The store that keeps tokens and limits; nothing if the process was told to stop meanwhile.
async fn admin_store(
    config: &Config,
    stores: &BTreeMap<String, Store>,
    stop: &CancellationToken,
) -> Result<Option<Store>, StartError> {
    match &config.admin_store {
        None => Ok(stores.get(DEFAULT_POOL).cloned()),
        Some(settings) => {
            let name = "admin_store".to_owned();
            connect(name, settings, config.connect_patience, stop).await
        }
    }
}

async fn connect(
    name: String,
    settings: &StoreConfig,
    patience: Duration,
    stop: &CancellationToken,
) -> Result<Option<Store>, StartError> {
    let connecting = Store::connect_within(settings, patience);
    match stop.run_until_cancelled(connecting).await.transpose() {
        Ok(store) => Ok(store),
        Err(source) => Err(StartError::Redis { name, source }),
    }
}

async fn bind(
    name: &'static str,
    address: SocketAddr,
    limits: ListenLimits,
) -> Result<Listener, StartError> {
    let bound = Listener::bind(name, address, limits).await;
    bound.map_err(io_error(format!("listening on {address}")))
}

fn local(listener: &Listener) -> Result<SocketAddr, StartError> {
    listener
        .local_addr()
        .map_err(io_error("reading a bound address"))
}

fn io_error(doing: impl Into<String>) -> impl FnOnce(io::Error) -> StartError {
    let doing = doing.into();
    move |source| StartError::Io { doing, source }
}
