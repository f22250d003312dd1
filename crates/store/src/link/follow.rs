//! Following the master: a task asks the sentinels once a second, and at once when a call fails, and
//! puts another connection in the place of the one in use when the master is another server.
//! `docs/decisions/0007-sentinel.md` says why so.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{Notify, watch};
use tokio::time::sleep;

use super::route::{Access, Place};
use super::sentinel::{Found, Sentinels};
use super::server::Server;
use crate::{StoreConfig, StoreError, server_check};

/// The longest time between two looks.
const LOOK_INTERVAL: Duration = Duration::from_secs(1);
/// The shortest: failing calls ask for a look each.
const LOOK_PAUSE: Duration = Duration::from_millis(100);

pub(crate) struct Follower {
    config: StoreConfig,
    sentinels: Sentinels,
    access: Access,
    at: Place,
    epoch: u64,
    master: watch::Sender<Arc<Server>>,
    look: Arc<Notify>,
    /// What the last look ended with, if that was a failure: told once.
    trouble: bool,
}

impl Follower {
    /// Connects to the master and follows it from then on, until the receiver is dropped.
    pub(crate) async fn start(
        config: &StoreConfig,
        mut sentinels: Sentinels,
        access: Access,
        look: Arc<Notify>,
    ) -> Result<watch::Receiver<Arc<Server>>, StoreError> {
        let found = sentinels.find_master().await?;
        let server = connect(config, &access, &found.master).await?;
        tracing::info!(master = %server, "the sentinels name the master");
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
                    tracing::warn!(%error, at = %self.at, "the master cannot be followed; calls still go to the last one");
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
        let found = self.sentinels.find_master().await?;
        if self.is_stale(&found) {
            return Ok(());
        }
        if found.master != self.at {
            let connected = connect(&self.config, &self.access, &found.master).await;
            // Not ready yet: the next look is as urgent as this one.
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

    /// Whether this is the word of a sentinel that was cut off and names an earlier master. Epochs
    /// begin anew only where somebody made the sentinels forget, and then most of them say so.
    const fn is_stale(&self, found: &Found) -> bool {
        found.epoch < self.epoch && !found.by_majority
    }
}

/// Connects to a server that the sentinels name, and goes on only if it says itself that it is a
/// master: the word of a sentinel may be older than that.
async fn connect(
    config: &StoreConfig,
    access: &Access,
    place: &Place,
) -> Result<Server, StoreError> {
    let endpoint = access.at(place).map_err(StoreError::away)?;
    let server = endpoint.connect().await?;
    let session = server.session(config.command_timeout);
    let role: redis::Value = session.command(&redis::cmd("ROLE")).await?;
    if is_master(&role) {
        return Ok(server);
    }
    Err(StoreError::not_ready(format!(
        "the sentinels name {place} as master, and it says that it is none"
    )))
}

/// `ROLE` answers with the role first.
fn is_master(role: &redis::Value) -> bool {
    let redis::Value::Array(parts) = role else {
        return false;
    };
    matches!(parts.first(), Some(redis::Value::BulkString(word)) if word == b"master")
}
