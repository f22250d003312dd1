//! The connection to a server, replaced where it has fallen silent.
//!
//! The client replaces a connection that has ended. One that is half open does not end: what is sent arrives nowhere, and
//! nobody is told. Where nobody confirms what was sent the kernel finds that out (`Waits::tcp_settings`). Something
//! in between, such as a proxy beside a container or one that ends TLS, confirms it all the same; then only the answers
//! that do not come can tell.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use arc_swap::ArcSwap;
use redis::aio::{ConnectionManager, ConnectionManagerConfig};
use redis::{Client, RedisResult};

pub(crate) struct Line {
    client: Client,
    config: ConnectionManagerConfig,
    /// After so long without an answer a call is given up.
    patience: Duration,
    current: ArcSwap<Current>,
    opened_at: Instant,
    /// When the last answer came, in µs since it was opened.
    heard_at_us: AtomicU64,
}

struct Current {
    connection: ConnectionManager,
    made_at: Instant,
}

/// A call that has not been answered. Dropping it gives it up.
struct Pending<'a> {
    line: &'a Line,
    since: Instant,
}

impl Line {
    /// Connects.
    pub(super) async fn open(
        client: Client,
        config: ConnectionManagerConfig,
        patience: Duration,
    ) -> RedisResult<Self> {
        let connecting = ConnectionManager::new_with_config(client.clone(), config.clone());
        Ok(Self::over(connecting.await?, client, config, patience))
    }

    /// Connects with the first call.
    pub(super) fn lazy(
        client: Client,
        config: ConnectionManagerConfig,
        patience: Duration,
    ) -> RedisResult<Self> {
        let connection = ConnectionManager::new_lazy_with_config(client.clone(), config.clone())?;
        Ok(Self::over(connection, client, config, patience))
    }

    fn over(
        connection: ConnectionManager,
        client: Client,
        config: ConnectionManagerConfig,
        patience: Duration,
    ) -> Self {
        let made_at = Instant::now();
        Self {
            client,
            config,
            patience,
            current: ArcSwap::from_pointee(Current {
                connection,
                made_at,
            }),
            opened_at: made_at,
            heard_at_us: AtomicU64::new(0),
        }
    }

    /// The connection to send the next call on.
    pub(crate) fn connection(&self) -> ConnectionManager {
        self.current.load().connection.clone()
    }

    /// Waits for the answer of a call on this line, and notes whether one came.
    pub(crate) async fn listen<T>(
        &self,
        call: impl Future<Output = RedisResult<T>>,
    ) -> RedisResult<T> {
        let pending = Pending {
            line: self,
            since: Instant::now(),
        };
        let answer = call.await;
        if answer.is_ok() {
            self.heard_at_us
                .store(self.micros(Instant::now()), Ordering::Relaxed);
        }
        drop(pending);
        answer
    }

    /// A call that began at this moment was given up. If no other call was answered since then, further ones go over a new
    /// connection.
    fn unanswered(&self, since: Instant) {
        let is_slow_only = self.heard_at_us.load(Ordering::Relaxed) > self.micros(since);
        if is_slow_only || self.current.load().made_at > since {
            return;
        }
        match ConnectionManager::new_lazy_with_config(self.client.clone(), self.config.clone()) {
            Ok(connection) => {
                tracing::warn!("redis answers nothing; further calls go over a new connection");
                let made_at = Instant::now();
                self.current.store(
                    Current {
                        connection,
                        made_at,
                    }
                    .into(),
                );
            }
            Err(error) => tracing::error!(%error, "a silent connection cannot be replaced"),
        }
    }

    fn micros(&self, at: Instant) -> u64 {
        let since = at.saturating_duration_since(self.opened_at);
        u64::try_from(since.as_micros()).unwrap_or(u64::MAX)
    }
}

impl Drop for Pending<'_> {
    fn drop(&mut self) {
        if self.since.elapsed() >= self.line.patience {
            self.line.unanswered(self.since);
        }
    }
}
