//! Connecting: what is checked before the first job is touched.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use tidegate_core::keys::Buckets;
use tidegate_core::{SlotWidth, placement};
use tokio::time::{Instant, sleep};

use crate::link::Link;
use crate::server_check::{self, Refusal};
use crate::{Inner, Store, StoreConfig, StoreError, Unavailable, permissions};

/// Between two tries to connect at the start.
const CONNECT_PAUSE: Duration = Duration::from_secs(1);

/// Why a store cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum ConnectError {
    /// The settings make no sense, whatever the server.
    #[error("{0}")]
    BadConfig(String),
    /// The server cannot be used as it is. Trying again does not help.
    #[error(transparent)]
    Refused(#[from] Refusal),
    /// The server does not answer, or not yet. Trying again may help.
    #[error(transparent)]
    Unavailable(StoreError),
}

/// A wrong password stays wrong: it is not waited for.
impl From<StoreError> for ConnectError {
    fn from(error: StoreError) -> Self {
        match error {
            StoreError::Unavailable {
                reason: Unavailable::Forbidden,
                detail,
            } => Self::Refused(Refusal::Forbidden(detail)),
            error => Self::Unavailable(error),
        }
    }
}

impl Store {
    /// Connects to a deployment, checks that it can be trusted with jobs and that its layout is ours.
    ///
    /// After this the connection looks after itself: calls fail while Redis is away and succeed again
    /// once it is back.
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
            permissions::check(&session, config).await?;
        }
        let store = Self {
            inner: Arc::new(Inner {
                config: config.clone(),
                buckets: Buckets::new(config.buckets),
                slot_width,
                link,
                expects_durable: AtomicBool::new(false),
            }),
            now_ms: None,
        };
        server_check::claim_layout(&store).await?;
        Ok(store)
    }

    /// Connects as [`Store::connect`] does; while the server does not answer, or not yet, tries again
    /// for as long as `patience`.
    ///
    /// # Errors
    /// See [`ConnectError`].
    pub async fn connect_within(
        config: &StoreConfig,
        patience: Duration,
    ) -> Result<Self, ConnectError> {
        let deadline = Instant::now() + patience;
        loop {
            match Self::connect(config).await {
                Err(ConnectError::Unavailable(error))
                    if Instant::now() + CONNECT_PAUSE < deadline =>
                {
                    tracing::warn!(%error, "waiting for redis");
                    sleep(CONNECT_PAUSE).await;
                }
                connected => return connected,
            }
        }
    }
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
