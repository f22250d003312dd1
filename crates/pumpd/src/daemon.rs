//! The process: bind the admin port, connect to Redis, run the pumps, release the buckets. The admin port replies from
//! the start on.

use std::time::Duration;

use futures_util::future::join_all;
use tidegate_daemon::metrics::Metrics;
use tidegate_daemon::{
    BindError, ListenLimits, Listener, OpenFileLimitError, admin_router, router_handler,
};
use tidegate_daemon::{DaemonContext, redis_check};
use tidegate_store::{PoolError, Store};
use tokio_util::sync::CancellationToken;

use crate::config::PumpdConfig;
use crate::open_files::files_needed;
use crate::pump;
use crate::readiness::PumpReadiness;
use crate::size_metrics::SizesPage;

/// Time limit of a scrape while the daemon stops.
const ADMIN_DRAIN: Duration = Duration::from_secs(1);

/// Why the daemon could not start.
#[derive(Debug, thiserror::Error)]
pub enum PumpdStartError {
    /// The admin port cannot be bound.
    #[error(transparent)]
    Bind(#[from] BindError),
    /// The limit of open files is too low.
    #[error(transparent)]
    Files(#[from] OpenFileLimitError),
    /// A Redis deployment cannot be used.
    #[error(transparent)]
    Redis(#[from] PoolError),
}

/// Pumps all pools until a signal requests a stop, then releases the buckets.
///
/// # Errors
/// The daemon could not start. After the start only a signal ends it.
pub async fn run(config: PumpdConfig, process: DaemonContext) -> Result<(), PumpdStartError> {
    let limits = files_needed(&config, &ListenLimits::default()).raise_limit()?;
    let listener = Listener::bind("admin", "admin_listen", config.admin_listen, limits);
    let listener = listener.await?.replacing_longest_waiting();
    let admin = listener.address();
    let readiness = process.not_ready_until_started();
    let sizes = SizesPage::new(config.metrics);
    let page = sizes.clone();
    let metrics = Metrics::with_page(move || page.clone().families());
    let router = admin_router(admin, metrics, readiness.clone(), Default::default());
    // Metrics are served until the buckets are released.
    let admin_stop = CancellationToken::new();
    let serving =
        tokio::spawn(listener.serve(router_handler(router), admin_stop.clone(), ADMIN_DRAIN));
    let stop = process.stop.clone();
    let connecting = Store::connect_pools(&config.pool, config.connect_patience);
    let Some(stores) = stop.requested.run_until_cancelled(connecting).await else {
        return Ok(());
    };
    let (mut pumps, mut checks) = (Vec::new(), Vec::new());
    for (name, store) in stores? {
        let membership = PumpReadiness::default();
        checks.extend([
            redis_check(format!("pool {name}"), store.clone()),
            membership.check(&name),
        ]);
        let (config, stop) = (config.pump.clone(), stop.drain_begun.clone());
        let (traces, sizes) = (process.traces.clone(), sizes.clone());
        pumps.push(async move {
            pump::run(&name, store, config, membership, traces, sizes, stop).await;
        });
    }
    readiness.mark_started(checks);
    tracing::info!(%admin, "ready");
    // `DaemonContext` applies log.level, the only reloadable key.
    process.mark_started(|_: &PumpdConfig| {});
    join_all(pumps).await;
    admin_stop.cancel();
    // A scrape that is in progress may be cut off.
    let _ = serving.await;
    tracing::info!("stopped");
    Ok(())
}
