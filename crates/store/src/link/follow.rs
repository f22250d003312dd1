//! Follows the master. A task asks the sentinels once a second, and immediately after a failed call. If the master has
//! changed, it replaces the connection. `docs/decisions/0007-sentinel.md` explains the design.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{Notify, watch};
use tokio::time::sleep;

use super::host_port::HostPort;
use super::link_config::ServerAccess;
use super::sentinel::{MasterReport, Sentinels};
use super::server::StoreServer;
use crate::config::StoreConfig;
use crate::error::StoreError;
use crate::server_check;

/// Interval of checks.
const LOOK_INTERVAL: Duration = Duration::from_secs(1);
/// Least time between two checks, since each failed call triggers one.
const LOOK_PAUSE: Duration = Duration::from_millis(100);

pub(crate) struct MasterFollower {
    config: StoreConfig,
    sentinels: Sentinels,
    access: ServerAccess,
    at: HostPort,
    epoch: u64,
    master: watch::Sender<Arc<StoreServer>>,
    look: Arc<Notify>,
    /// Whether the last check failed. A failure is logged once.
    trouble: bool,
}

impl MasterFollower {
    /// Connects to the master, and follows it until the receiver is dropped.
    pub(crate) async fn start(
        config: &StoreConfig,
        mut sentinels: Sentinels,
        access: ServerAccess,
        look: Arc<Notify>,
    ) -> Result<watch::Receiver<Arc<StoreServer>>, StoreError> {
        let found = sentinels.find_master(0).await?;
        let server = connect(config, &access, &found.master).await?;
        tracing::info!(master = %server, "connected to the master that the sentinels report");
        let (master, receiver) = watch::channel(Arc::new(server));
        let follower = Self {
            config: config.clone(),
            sentinels,
            access,
            at: found.master,
            epoch: found.epoch,
            master,
            look,
            trouble: false,
        };
        tokio::spawn(follower.run());
        Ok(receiver)
    }

    async fn run(mut self) {
        let receiver_gone = self.master.clone();
        tokio::select! {
            () = receiver_gone.closed() => {}
            () = self.follow() => {}
        }
    }

    async fn follow(&mut self) {
        loop {
            let looked = self.look_for_master().await;
            match &looked {
                Err(error) if !self.trouble => {
                    tracing::warn!(%error, at = %self.at, "the master cannot be followed: calls continue to the last known one; retrying every {LOOK_INTERVAL:?}");
                }
                Ok(()) if self.trouble => {
                    tracing::info!(at = %self.at, "the master is followed again")
                }
                _ => {}
            }
            self.trouble = looked.is_err();
            sleep(LOOK_PAUSE).await;
            tokio::select! {
                () = self.look.notified() => {}
                () = sleep(LOOK_INTERVAL) => {}
            }
        }
    }

    async fn look_for_master(&mut self) -> Result<(), StoreError> {
        let found = self.sentinels.find_master(self.epoch).await?;
        if self.is_stale(&found) {
            return Ok(());
        }
        if found.master != self.at {
            let connected = connect(&self.config, &self.access, &found.master).await;
            // It may not be ready yet: the next check is due immediately.
            let server = Arc::new(connected.inspect_err(|_| self.look.notify_one())?);
            tracing::warn!(from = %self.at, to = %server, "the master is another server now");
            let session = server.session(self.config.command_timeout);
            self.master.send_replace(Arc::clone(&server));
            self.at = found.master;
            server_check::check_successor(&session, &self.config).await;
        }
        self.epoch = found.epoch;
        Ok(())
    }

    /// Whether this reply comes from a sentinel that was partitioned and reports an earlier master. Epochs restart only
    /// if the sentinels were reset, and then most of them report it, and none the known epoch.
    const fn is_stale(&self, found: &MasterReport) -> bool {
        found.epoch < self.epoch && !found.by_majority
    }
}

/// Connects to the server that the sentinels report. Fails unless its own `ROLE` is master: the reply of a sentinel may
/// be outdated.
async fn connect(
    config: &StoreConfig,
    access: &ServerAccess,
    host_port: &HostPort,
) -> Result<StoreServer, StoreError> {
    let endpoint = access.at(host_port).map_err(StoreError::unreachable)?;
    let server = endpoint.connect().await?;
    let session = server.session(config.command_timeout);
    let role: redis::Value = session.command(&redis::cmd("ROLE")).await?;
    if is_master(&role) {
        return Ok(server);
    }
    Err(StoreError::not_ready(format!(
        "the sentinels report {host_port} as master, but it says that it is none: a failover may be in progress"
    )))
}

/// The first element of the reply to `ROLE` is the role.
fn is_master(role: &redis::Value) -> bool {
    let redis::Value::Array(parts) = role else {
        return false;
    };
    matches!(parts.first(), Some(redis::Value::BulkString(word)) if word == b"master")
}
