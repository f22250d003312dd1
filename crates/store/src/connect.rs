//! Connecting: what is checked before the first job is touched.

use std::sync::Arc;
use std::time::Duration;

use redis::aio::{ConnectionManager, ConnectionManagerConfig};
use redis::io::tcp::{TcpSettings, socket2::TcpKeepalive};
use redis::{Client, IntoConnectionInfo};
use tidegate_core::codec::LAYOUT_VERSION;
use tidegate_core::{keys, placement};
use tokio::time::{Instant, sleep};

use crate::server_check::{self, Refusal};
use crate::{Inner, Store, StoreConfig, StoreError};

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
    Unavailable(#[from] StoreError),
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
        let client = client(config)?;
        let connecting = ConnectionManager::new_with_config(client.clone(), manager_config(config));
        let connection = connecting.await.map_err(StoreError::from)?;
        let store = Self {
            inner: Arc::new(Inner {
                config: config.clone(),
                client,
                connection,
            }),
            now_ms: None,
        };
        server_check::check(&store).await?;
        store.claim_layout().await?;
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

    /// Stamps a fresh deployment with our layout; refuses one that has another.
    async fn claim_layout(&self) -> Result<(), ConnectError> {
        let ours = format!("layout={LAYOUT_VERSION} buckets={}", self.buckets());
        let mut set = redis::cmd("SET");
        set.arg(keys::LAYOUT).arg(&ours).arg("NX").arg("GET");
        let found: Option<String> = self.command(&set).await?;
        match found {
            Some(found) if found != ours => Err(Refusal::OtherLayout { found, ours }.into()),
            _ => Ok(()),
        }
    }
}

fn client(config: &StoreConfig) -> Result<Client, ConnectError> {
    if config.buckets == 0 || config.buckets > placement::BUCKETS_MAX {
        let message = format!(
            "buckets must be 1 to {}, not {}",
            placement::BUCKETS_MAX,
            config.buckets
        );
        return Err(ConnectError::BadConfig(message));
    }
    let bad_url = |error: redis::RedisError| ConnectError::BadConfig(format!("redis url: {error}"));
    let info = config
        .url
        .as_str()
        .into_connection_info()
        .map_err(bad_url)?;
    Client::open(info.set_tcp_settings(tcp_settings(config))).map_err(bad_url)
}

/// A server that vanished without a word is noticed by the kernel, and the connection replaced.
fn tcp_settings(config: &StoreConfig) -> TcpSettings {
    let probing = TcpKeepalive::new().with_time(Duration::from_secs(10));
    let settings = TcpSettings::default()
        .set_nodelay(true)
        .set_keepalive(probing);
    #[cfg(target_os = "linux")]
    let settings = settings.set_user_timeout(config.command_timeout);
    #[cfg(not(target_os = "linux"))]
    let _ = config;
    settings
}

/// While Redis is away a call fails after one more try to connect: the caller is told soon, and the
/// first call after Redis came back finds it.
fn manager_config(config: &StoreConfig) -> ConnectionManagerConfig {
    ConnectionManagerConfig::new()
        .set_number_of_retries(1)
        .set_min_delay(Duration::from_millis(50))
        .set_max_delay(Duration::from_millis(100))
        .set_connection_timeout(Some(config.connect_timeout))
        .set_response_timeout(Some(config.command_timeout))
}
