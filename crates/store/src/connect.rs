//! Connecting to a deployment, and the checks before its first use.

use std::sync::atomic::AtomicBool;
use std::sync::{Arc, OnceLock, RwLock};
use std::time::Duration;

use redis::{Cmd, IntoConnectionInfo};
use tidegate_core::keys::{self, DeploymentKeys};
use tidegate_core::{SlotWidth, placement};
use tokio::time::{Instant, sleep};

use crate::cold_tier::ColdTier;
use crate::config::StoreConfig;
use crate::connect_error::{ConnectError, ServerCheckError};
use crate::link::Link;
use crate::server_check;
use crate::stamp;
use crate::store::{Store, StoreInner};
use crate::waiter_id::WaiterId;

/// Pause between two attempts to connect at the start.
const CONNECT_PAUSE: Duration = Duration::from_secs(1);

impl Store {
    /// Connects to a deployment, checks that its servers are safe for jobs, and that it has the layout of `config`.
    ///
    /// Afterwards the connection is restored automatically: calls fail while Redis is unavailable, and succeed again
    /// once it is available.
    ///
    /// # Errors
    /// See [`ConnectError`].
    pub async fn connect(config: &StoreConfig) -> Result<Self, ConnectError> {
        check_buckets(config)?;
        let slot_width = SlotWidth::new(config.slot_ms);
        let slot_width =
            slot_width.map_err(|invalid| ConnectError::BadConfig(invalid.to_string()))?;
        let link = Link::open(config).await?;
        for server in link.servers() {
            let session = server.session(config.command_timeout);
            server_check::check(&session, config).await?;
        }
        let store = Self {
            inner: Arc::new(StoreInner {
                namespace_limits: RwLock::default(),
                waiter: WaiterId::random(),
                config: config.clone(),
                buckets: DeploymentKeys::new(config.buckets),
                slot_width,
                link,
                deployment_id: OnceLock::new(),
                cold: OnceLock::new(),
                expects_durable: AtomicBool::new(false),
            }),
            now_ms: None,
        };
        let id = claim_layout(&store).await?;
        let cold = ColdTier::open(config, &id);
        let cold = cold.map_err(|error| ConnectError::BadConfig(error.to_string()))?;
        // Both are set once, before any other call.
        let _ = store.inner.cold.set(cold);
        let _ = store.inner.deployment_id.set(id);
        Ok(store)
    }

    /// Connects as [`Store::connect`] does. While a server does not reply, is loading its data, or is a replica, it
    /// retries every second for up to `patience`.
    ///
    /// # Errors
    /// See [`ConnectError`].
    pub async fn connect_within(
        config: &StoreConfig,
        patience: Duration,
    ) -> Result<Self, ConnectError> {
        Self::connect_pool(None, config, patience).await
    }

    /// The same. Log lines name the pool.
    pub(crate) async fn connect_pool(
        pool: Option<&str>,
        config: &StoreConfig,
        patience: Duration,
    ) -> Result<Self, ConnectError> {
        with_patience(pool, config, patience, async || Self::connect(config).await).await
    }
}

/// Repeats an attempt every second, for up to `patience`, while a server is unavailable.
pub(crate) async fn with_patience<T>(
    pool: Option<&str>,
    config: &StoreConfig,
    patience: Duration,
    attempt: impl AsyncFn() -> Result<T, ConnectError>,
) -> Result<T, ConnectError> {
    let deadline = Instant::now() + patience;
    loop {
        match attempt().await {
            Err(ConnectError::Unavailable(error)) if Instant::now() + CONNECT_PAUSE < deadline => {
                tracing::warn!(
                    pool, server = %addresses(config), %error,
                    "waiting for redis; retrying in {CONNECT_PAUSE:?}"
                );
                sleep(CONNECT_PAUSE).await;
            }
            outcome => return outcome,
        }
    }
}

/// The configured addresses, for log lines: without user and password, which a url may contain.
fn addresses(config: &StoreConfig) -> String {
    if !config.sentinels.is_empty() {
        return config.sentinels.join(", ");
    }
    if config.cluster.is_empty() {
        return address(&config.url);
    }
    let nodes: Vec<String> = config.cluster.iter().map(|url| address(url)).collect();
    nodes.join(", ")
}

fn address(url: &str) -> String {
    let info = url.into_connection_info();
    info.map_or_else(|_| String::new(), |info| info.addr().to_string())
}

fn check_buckets(config: &StoreConfig) -> Result<(), ConnectError> {
    if (1..=placement::BUCKETS_MAX).contains(&config.buckets) {
        return Ok(());
    }
    Err(ConnectError::BadConfig(format!(
        "buckets must be 1 to {}, not {}",
        placement::BUCKETS_MAX,
        config.buckets
    )))
}

/// Writes the stamp of a new deployment; rejects a deployment with another layout. Returns the id of the deployment.
async fn claim_layout(store: &Store) -> Result<String, ConnectError> {
    let config = &store.inner.config;
    let ours = stamp::random(config);
    // A Redis that is full executes no `SET`, but its jobs can be consumed.
    let known: Option<String> = store.command(&Cmd::get(keys::LAYOUT)).await?;
    let found = match known {
        Some(known) => Some(known),
        None => {
            let mut set = redis::cmd("SET");
            set.arg(keys::LAYOUT).arg(&ours).arg("NX").arg("GET");
            store.command(&set).await?
        }
    };
    let stamp = found.unwrap_or(ours);
    match stamp::id_of(&stamp, config) {
        Some(id) => Ok(id.to_owned()),
        None => Err(ServerCheckError::OtherLayout {
            ours: stamp::with_id(config, "…"),
            found: stamp,
        }
        .into()),
    }
}
