//! Waiting until the copies of jobs that a publish requested are confirmed.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use crate::connect::with_patience;
use crate::connect_error::{ConnectError, ServerCheckError};
use crate::durability::DurabilityError;
use crate::error::StoreError;
use crate::link::StoreServer;
use crate::store::Store;
use tidegate_core::Durability;

/// When and where jobs were written, for [`Store::until_durable`].
#[derive(Debug, Clone)]
pub struct Receipt {
    pub(crate) server: Arc<StoreServer>,
    pub(crate) bucket: u16,
    pub(crate) sent_at: Instant,
}

impl Store {
    /// Call this before publishing jobs whose receipts are passed to [`Store::until_durable`]. Publishes from now on
    /// wait until the replication history of their server is known.
    ///
    /// The histories of all servers are read in tasks, since buckets may move between servers.
    pub fn expect_durable(&self) {
        self.inner.expects_durable.store(true, Ordering::Relaxed);
        let timeout = self.inner.config.command_timeout;
        for server in self.inner.link.servers() {
            if let Some(question) = server.barriers.history_permit() {
                tokio::spawn(async move {
                    // After a failure the next publish reads it again.
                    let _ = server.read_replication_history(timeout).await;
                    drop(question);
                });
            }
        }
    }

    /// Waits, before a publish, until the replication history of the server that has this key is known.
    ///
    /// # Errors
    /// The server did not reply: it would not reply to a publish either.
    pub(crate) async fn until_history_is_known(&self, key: &str) -> Result<(), StoreError> {
        if !self.inner.expects_durable.load(Ordering::Relaxed) {
            return Ok(());
        }
        let server = self.inner.link.server_of(key);
        let Some(server) = server.filter(|server| !server.barriers.is_ready()) else {
            return Ok(());
        };
        let reply = server.read_replication_history(self.inner.config.command_timeout);
        match reply.await {
            Err(error) if error.is_unreachable() => {
                self.inner.link.report_failure(Some(&server), &error);
                Err(error)
            }
            // Without a history no durability is confirmed, but the jobs can be stored.
            _ => Ok(()),
        }
    }

    /// Waits until the copies in `wanted` are confirmed. Calls for the same server share a wait.
    ///
    /// # Errors
    /// They are not confirmed within `timeout` and some tenths of a second. The jobs are stored nevertheless, unless
    /// their server has lost them.
    pub async fn until_durable(
        &self,
        receipt: Receipt,
        wanted: Durability,
        timeout: Duration,
    ) -> Result<(), DurabilityError> {
        if wanted.is_memory() {
            return Ok(());
        }
        let Receipt {
            server,
            bucket,
            sent_at,
        } = receipt;
        let key = self.keys(bucket).barrier();
        server.barriers.wait(sent_at, key, wanted, timeout).await
    }

    /// Checks as [`Store::check_durability`] does. While a server is unavailable, it retries every second for up to
    /// `patience`.
    ///
    /// # Errors
    /// See [`Store::check_durability`].
    pub async fn check_durability_within(
        &self,
        wanted: Durability,
        patience: Duration,
    ) -> Result<(), ConnectError> {
        let check = async || self.check_durability(wanted).await;
        with_patience(None, &self.inner.config, patience, check).await
    }

    /// Checks that the servers can confirm this durability. Logs a warning for a server that has too few replicas now.
    ///
    /// # Errors
    /// [`ConnectError::Refused`] if a server cannot confirm writes to disk; or a server does not reply.
    pub async fn check_durability(&self, wanted: Durability) -> Result<(), ConnectError> {
        for server in self.inner.link.servers() {
            let session = server.session(self.inner.config.command_timeout);
            if wanted.replicas > 0 {
                let mut wait = redis::cmd("WAIT");
                wait.arg(wanted.replicas).arg(1);
                let replicas: u64 = session.command(&wait).await?;
                if replicas < u64::from(wanted.replicas) {
                    tracing::warn!(%server, replicas, "too few replicas for durability {wanted}: publishes that request it fail until more are connected");
                }
            }
            if wanted.fsync {
                let mut wait = redis::cmd("WAITAOF");
                wait.arg(1).arg(0).arg(1);
                let reply = session.command::<(u64, u64)>(&wait).await;
                reply.map_err(|error| match error {
                    StoreError::Corrupt(said) => ServerCheckError::CannotTellFsync(said).into(),
                    error => ConnectError::from(error),
                })?;
            }
        }
        Ok(())
    }
}
