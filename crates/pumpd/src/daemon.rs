//! The life of the process: bind, connect, pump, hand back. The admin port answers from the beginning on.

use std::time::Duration;

use futures_util::future::join_all;
use tidegate_launch::{Process, redis_check};
use tidegate_service::{
    BindError, ListenLimits, Listener, TooFewFiles, admin_router, metrics, routed,
};
use tidegate_store::{PoolError, Store};
use tokio_util::sync::CancellationToken;

use crate::config::Config;
use crate::measures::{HISTOGRAMS, describe};
use crate::membership::Membership;
use crate::open_files::files_needed;
use crate::pump;

/// How long a scrape may take when the daemon stops.
const ADMIN_DRAIN: Duration = Duration::from_secs(1);

/// Why the daemon did not start.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// The admin port cannot be had.
    #[error(transparent)]
    Bind(#[from] BindError),
    /// There are not enough open files.
    #[error(transparent)]
    Files(#[from] TooFewFiles),
    /// Metrics cannot be recorded.
    #[error("metrics: {0}")]
    Metrics(String),
    /// A Redis deployment cannot be used.
    #[error(transparent)]
    Redis(#[from] PoolError),
}

/// Pumps all pools until a signal asks to stop, then hands the buckets back.
///
/// # Errors
/// It did not start. Once it has started nothing ends it but a signal.
pub async fn run(config: Config, process: Process) -> Result<(), StartError> {
    let recorded =
        metrics::init(&HISTOGRAMS).map_err(|error| StartError::Metrics(error.to_string()))?;
    describe();
    let bind_error = |source| BindError {
        key: "admin_listen",
        address: config.admin_listen,
        source,
    };
    let limits = files_needed(&config, &ListenLimits::default()).obtain()?;
    let listener = Listener::bind("admin", config.admin_listen, limits);
    let listener = listener.await.map_err(bind_error)?.displacing_waiting();
    let admin = listener.local_addr().map_err(bind_error)?;
    let readiness = process.starting();
    let router = admin_router(
        admin,
        recorded.clone(),
        readiness.clone(),
        Default::default(),
    );
    // Metrics show how the buckets are handed back.
    let admin_stop = CancellationToken::new();
    tokio::spawn(recorded.upkeep(admin_stop.clone()));
    let serving = tokio::spawn(listener.serve(routed(router), admin_stop.clone(), ADMIN_DRAIN));
    let stop = process.stop.clone();
    let connecting = Store::connect_pools(&config.pool, config.connect_patience);
    let Some(stores) = stop.asked.run_until_cancelled(connecting).await else {
        return Ok(());
    };
    let (mut pumps, mut checks) = (Vec::new(), Vec::new());
    for (name, store) in stores? {
        let membership = Membership::new();
        checks.extend([
            redis_check(format!("pool {name}"), store.clone()),
            membership.check(&name),
        ]);
        let (config, stop) = (config.pump.clone(), stop.begun.clone());
        pumps.push(async move { pump::run(&name, store, config, membership, stop).await });
    }
    readiness.started(checks);
    tracing::info!(%admin, "ready");
    // What can change while it runs is seen to by those who read it again.
    process.started(|_: &Config| {});
    join_all(pumps).await;
    admin_stop.cancel();
    // The last look at the metrics may be cut.
    let _ = serving.await;
    tracing::info!("stopped");
    Ok(())
}
