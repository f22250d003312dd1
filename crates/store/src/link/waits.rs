//! Time limits of connections and commands.

use std::time::Duration;

use redis::aio::ConnectionManagerConfig;
use redis::io::tcp::{TcpSettings, socket2::TcpKeepalive};

use crate::config::StoreConfig;
use crate::error::StoreError;

/// How long a reply in flight from a former server is still accepted.
pub(super) const FAREWELL: Duration = Duration::from_millis(100);

/// Time limits of connecting and of commands.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Timeouts {
    pub(crate) connect: Duration,
    pub(crate) command: Duration,
}

impl Timeouts {
    pub(crate) const fn of(config: &StoreConfig) -> Self {
        Self {
            connect: config.connect_timeout,
            command: config.command_timeout,
        }
    }

    /// With keepalive and user timeout the kernel detects a server that vanished without closing the connection.
    pub(crate) fn tcp_settings(self) -> TcpSettings {
        let probing = TcpKeepalive::new().with_time(Duration::from_secs(10));
        let settings = TcpSettings::default()
            .set_nodelay(true)
            .set_keepalive(probing);
        #[cfg(target_os = "linux")]
        let settings = settings.set_user_timeout(self.command);
        settings
    }

    /// While Redis is unavailable, a call fails after one attempt to reconnect. So it fails soon, and the first call
    /// after Redis is available again succeeds.
    pub(super) fn manager_config(self) -> ConnectionManagerConfig {
        ConnectionManagerConfig::new()
            .set_number_of_retries(1)
            .set_min_delay(Duration::from_millis(50))
            .set_max_delay(Duration::from_millis(100))
            .set_connection_timeout(Some(self.connect))
            .set_response_timeout(Some(self.command))
    }
}

pub(crate) async fn bounded<T>(
    wait: Duration,
    call: impl Future<Output = redis::RedisResult<T>>,
) -> Result<T, StoreError> {
    match tokio::time::timeout(wait, call).await {
        Ok(result) => result.map_err(StoreError::from),
        Err(_) => Err(StoreError::timed_out(wait)),
    }
}
