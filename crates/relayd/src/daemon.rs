//! The process: bind the admin port, run the relays, finish what is in flight.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use tidegate::api::relay::{RelayConfig, RelaySinkConfig, RelaySourceConfig};
use tidegate_daemon::DaemonContext;
use tidegate_daemon::metrics::Metrics;
use tidegate_daemon::{
    BindError, ListenLimits, Listener, OPEN_FILES_OF_A_PROCESS, OpenFileBudget, OpenFileLimitError,
    admin_router, router_handler,
};
use tokio_util::sync::CancellationToken;

use crate::assembly::build_relay;
use crate::config::{RelaydConfig, StoredRelaysConfig};
use crate::relay_set::RelaySet;
use crate::status::status_router;
use crate::stored_relays::StoredRelays;

/// Time limit of a scrape while the daemon stops.
const ADMIN_DRAIN: Duration = Duration::from_secs(1);
/// Connections of a relay to ends that serve many requests at a time over few connections.
const FILES_OF_AN_END: u64 = 8;
/// One connection for each partition of a topic, of which most have fewer.
const FILES_OF_KAFKA: u64 = 128;
/// Acks of the lmstfy wire, at the same time.
const FILES_OF_LMSTFY: u64 = 40;

/// Relays by their names.
type RelaysByName<'a> = BTreeMap<&'a String, &'a RelayConfig>;

/// Why the daemon could not start.
#[derive(Debug, thiserror::Error)]
pub enum RelaydStartError {
    /// The admin port cannot be bound.
    #[error(transparent)]
    Bind(#[from] BindError),
    /// The limit of open files is too low.
    #[error(transparent)]
    Files(#[from] OpenFileLimitError),
    /// A relay cannot be set up.
    #[error("{0}")]
    Relay(String),
}

/// Connections that a relay may have open.
fn files_of(relay: &RelayConfig) -> u64 {
    let source = match relay.source {
        RelaySourceConfig::Queue(_) | RelaySourceConfig::Tidegate(_) => FILES_OF_AN_END,
        RelaySourceConfig::Lmstfy(_) => FILES_OF_LMSTFY,
    };
    let sink = match relay.sink {
        RelaySinkConfig::Webhook(_) => relay.concurrency as u64,
        // Several batches at a time, each a request.
        RelaySinkConfig::Tidegate(_) => {
            (relay.concurrency / relay.batch.max(1)) as u64 + FILES_OF_AN_END
        }
        RelaySinkConfig::Nats(_) | RelaySinkConfig::RabbitMq(_) => FILES_OF_AN_END,
        RelaySinkConfig::Kafka(_) => FILES_OF_KAFKA,
    };
    source + sink
}

/// Connections that relays of the API may have open: as many as a relay with a webhook, since their number is not
/// known.
const fn files_of_stored(api: &StoredRelaysConfig) -> u64 {
    if api.url.is_empty() { 0 } else { 1024 }
}

/// Runs all relays until a signal requests a stop, then finishes the deliveries in flight.
///
/// # Errors
/// The daemon could not start. After the start only a signal ends it.
pub async fn run(config: RelaydConfig, process: DaemonContext) -> Result<(), RelaydStartError> {
    let (paused, running): (RelaysByName<'_>, RelaysByName<'_>) =
        config.relay.iter().partition(|(_, relay)| relay.paused);
    let limits = ListenLimits::default();
    let budget = OpenFileBudget {
        listener: "admin",
        limits: &limits,
        others: running.values().map(|relay| files_of(relay)).sum::<u64>()
            + files_of_stored(&config.api)
            + OPEN_FILES_OF_A_PROCESS,
    };
    let listener = Listener::bind(
        "admin",
        "admin_listen",
        config.admin_listen,
        budget.raise_limit()?,
    );
    let listener = listener.await?.replacing_longest_waiting();
    let admin = listener.address();
    let relays = running.iter().map(|(name, relay)| build_relay(name, relay));
    let relays: Vec<_> = relays
        .collect::<Result<_, _>>()
        .map_err(RelaydStartError::Relay)?;
    let stored = StoredRelays::new(&config.api).map_err(RelaydStartError::Relay)?;
    let stop = process.stop.drain_begun.clone();
    let set = Arc::new(RelaySet::new(
        stop.clone(),
        config.stop_grace,
        process.traces.clone(),
    ));
    let readiness = process.not_ready_until_started();
    let router = admin_router(
        admin,
        Metrics::default(),
        readiness.clone(),
        status_router(Arc::clone(&set)),
    );
    let admin_stop = CancellationToken::new();
    let serving =
        tokio::spawn(listener.serve(router_handler(router), admin_stop.clone(), ADMIN_DRAIN));
    for name in paused.keys() {
        tracing::info!(relay = name, "paused: reserves nothing");
    }
    if config.relay.is_empty() && stored.is_none() {
        tracing::warn!(
            "there is no relay: add [relay.NAME] to the file given with --config, or [api] for relays that are set there"
        );
    }
    for relay in relays {
        set.start(relay);
    }
    readiness.mark_started(Vec::new());
    tracing::info!(%admin, "ready");
    // `DaemonContext` applies log.level, the only reloadable key.
    process.mark_started(|_: &RelaydConfig| {});
    match stored {
        Some(stored) => stored.follow(Arc::clone(&set), stop).await,
        None => stop.cancelled().await,
    }
    set.ended().await;
    admin_stop.cancel();
    // A scrape that is in progress may be cut off.
    let _ = serving.await;
    tracing::info!("stopped");
    Ok(())
}
