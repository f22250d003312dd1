//! Follows the master. If another server has taken its place, calls, transfers, barriers and subscriptions move there:
//! all of them get a new [`StoreServer`].
//!
//! | settings | how the master is found | when |
//! |---|---|---|
//! | sentinels | their reports | once a second, and after a failed call |
//! | `url` | a new connection to the address leads to it | if the known connection leads to no master. That is checked after a failed call, and when no write has succeeded for a second |
//!
//! `docs/decisions/0007-failover.md` explains the design.

use std::sync::Arc;
use std::time::Duration;

use redis::FromRedisValue;
use tokio::sync::{Notify, watch};
use tokio::time::sleep;

use super::host_port::HostPort;
use super::link_config::ServerAccess;
use super::sentinel::{MasterReport, Sentinels};
use super::server::{ServerEndpoint, StoreServer};
use super::waits::bounded;
use crate::config::StoreConfig;
use crate::error::StoreError;
use crate::server_check;
use crate::server_info::{IDENTITY, ServerInfo};

/// Interval of checks.
const LOOK_INTERVAL: Duration = Duration::from_millis(800);
/// Least time between two checks, since each failed call triggers one.
const LOOK_PAUSE: Duration = Duration::from_millis(200);
/// How long the connection of calls may take to say that it leads to the new process already.
const ARRIVAL_LIMIT: Duration = Duration::from_millis(500);

pub(crate) struct MasterFollower {
    config: StoreConfig,
    source: MasterSource,
    master: watch::Sender<Arc<StoreServer>>,
    look: Arc<Notify>,
    /// Writes and breaks of the connection at the last check.
    writes_and_breaks: (u64, u64),
    /// Whether the last check failed. A failure is logged once.
    trouble: bool,
}

/// How the master is found.
pub(crate) enum MasterSource {
    /// This address leads to it. A name, a virtual address or a proxy may lead to another server later, while old
    /// connections stay.
    Address(ServerEndpoint),
    Sentinels(SentinelSource),
}

pub(crate) struct SentinelSource {
    sentinels: Sentinels,
    access: ServerAccess,
    /// The master and the epoch of the last report.
    known: Option<(HostPort, u64)>,
}

impl MasterSource {
    pub(super) const fn sentinels(sentinels: Sentinels, access: ServerAccess) -> Self {
        Self::Sentinels(SentinelSource {
            sentinels,
            access,
            known: None,
        })
    }
}

impl MasterFollower {
    /// Connects to the master, and follows it until the receiver is dropped.
    pub(crate) async fn start(
        config: &StoreConfig,
        mut source: MasterSource,
        look: Arc<Notify>,
    ) -> Result<watch::Receiver<Arc<StoreServer>>, StoreError> {
        let server = match &mut source {
            MasterSource::Address(endpoint) => connect(config, endpoint).await?,
            MasterSource::Sentinels(source) => {
                let found = source.sentinels.find_master(0).await?;
                let server = source.connect(config, &found.master).await?;
                tracing::info!(master = %server, "connected to the master that the sentinels report");
                source.known = Some((found.master, found.epoch));
                server
            }
        };
        let (master, receiver) = watch::channel(Arc::new(server));
        let follower = Self {
            config: config.clone(),
            source,
            master,
            look,
            writes_and_breaks: (0, 0),
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
            sleep(LOOK_PAUSE).await;
            let has_failure = tokio::select! {
                () = self.look.notified() => true,
                () = sleep(LOOK_INTERVAL) => self.trouble,
            };
            let looked = self.look_for_master(has_failure).await;
            let at = Arc::clone(&self.master.borrow().address);
            match &looked {
                Err(error) if !self.trouble => {
                    tracing::warn!(%error, %at, "the master cannot be followed: calls continue to the last known one; retrying every {LOOK_INTERVAL:?}, and after failed calls every {LOOK_PAUSE:?}");
                }
                Ok(()) if self.trouble => tracing::info!(%at, "the master is followed again"),
                _ => {}
            }
            self.trouble = looked.is_err();
        }
    }

    /// `has_failure`: a call failed, or the last check did.
    async fn look_for_master(&mut self, has_failure: bool) -> Result<(), StoreError> {
        let known = Arc::clone(&self.master.borrow());
        match &mut self.source {
            MasterSource::Address(endpoint) => {
                let (writes, breaks) = known.writes_and_breaks();
                let before = std::mem::replace(&mut self.writes_and_breaks, (writes, breaks));
                let is_proven = writes != before.0 && breaks == before.1 && !known.is_misled();
                if is_proven && !has_failure {
                    return Ok(());
                }
                let endpoint = endpoint.clone();
                self.check_connection(&known, &endpoint).await
            }
            MasterSource::Sentinels(source) => {
                let Some(found) = source.newer_report().await? else {
                    return Ok(());
                };
                let MasterReport { master, epoch, .. } = found;
                let at = source.known.as_ref().map(|(at, _)| at);
                if at == Some(&master) {
                    if known.is_misled() {
                        let endpoint = source.endpoint(&master)?;
                        self.check_connection(&known, &endpoint).await?;
                    }
                } else {
                    let connected = source.connect(&self.config, &master).await;
                    // It may not be ready yet: the next check is due immediately.
                    let server = connected.inspect_err(|_| self.look.notify_one())?;
                    self.replace(server, false).await;
                }
                if let MasterSource::Sentinels(source) = &mut self.source {
                    source.known = Some((master, epoch));
                }
                Ok(())
            }
        }
    }

    /// Checks which server the connection of calls leads to. Unless it is the known one, and a master, connects to the
    /// address again, and moves there if a master replies.
    ///
    /// # Errors
    /// No master replies: the known server is kept.
    async fn check_connection(
        &mut self,
        known: &Arc<StoreServer>,
        endpoint: &ServerEndpoint,
    ) -> Result<(), StoreError> {
        let info = self.probe(known, self.config.connect_timeout).await;
        let seen = info.and_then(|info| info.check_master().map(|()| info));
        let is_known =
            matches!(&seen, Ok(info) if known.has_run_id(info.run_id())) && !known.is_misled();
        if is_known {
            return Ok(());
        }
        let server = connect(&self.config, endpoint).await?;
        let is_same = known.has_run_id(server.run_id.as_deref());
        let is_silent = matches!(&seen, Err(error) if error.is_unreachable());
        // A connection that is only slow, or is replaced by itself.
        if is_same && is_silent && !known.is_misled() {
            return Ok(());
        }
        self.replace(server, true).await;
        Ok(())
    }

    /// Asks the connection of calls which server it leads to.
    async fn probe(&self, known: &StoreServer, limit: Duration) -> Result<ServerInfo, StoreError> {
        let mut command = redis::cmd("INFO");
        command.arg(&IDENTITY);
        let asking = async {
            let reply = known.connection.probe(&command).await?;
            Ok(String::from_redis_value(reply.extract_error()?)?)
        };
        let text = bounded(limit, asking).await?;
        Ok(ServerInfo::parse(&text))
    }

    /// Makes calls and subscriptions use this server. Calls in flight to the former one fail soon, unless it
    /// `may_have_arrived` and its connection leads to this server already, as after a restart.
    async fn replace(&mut self, server: StoreServer, may_have_arrived: bool) {
        let server = Arc::new(server);
        let former = self.master.send_replace(Arc::clone(&server));
        self.writes_and_breaks = (0, 0);
        // The connection that was refused is not used any more.
        former.connection.record_acceptance();
        // Asked only now: a silent connection delays no later call, and one that was refused before may have been
        // restored since.
        if may_have_arrived && self.leads_to(&former, &server).await {
            tracing::info!(%server, "redis was restarted, or is a master again");
        } else {
            tracing::warn!(from = %former, to = %server, "the master is another server now");
            former.abandon();
        }
        let session = server.session(self.config.command_timeout);
        server_check::check_successor(&session, &self.config).await;
    }

    /// Whether the connection of calls to `former` leads to this server.
    async fn leads_to(&self, former: &StoreServer, server: &StoreServer) -> bool {
        let info = self.probe(former, ARRIVAL_LIMIT).await;
        info.is_ok_and(|info| server.has_run_id(info.run_id()))
    }
}

impl SentinelSource {
    /// The report of the sentinels, unless it is older than the known one.
    async fn newer_report(&mut self) -> Result<Option<MasterReport>, StoreError> {
        let epoch = self.known.as_ref().map_or(0, |(_, epoch)| *epoch);
        let found = self.sentinels.find_master(epoch).await?;
        Ok((!is_stale(&found, epoch)).then_some(found))
    }

    fn endpoint(&self, host_port: &HostPort) -> Result<ServerEndpoint, StoreError> {
        self.access.at(host_port).map_err(StoreError::unreachable)
    }

    /// Connects to the server that the sentinels report. Their report may be outdated.
    async fn connect(
        &self,
        config: &StoreConfig,
        host_port: &HostPort,
    ) -> Result<StoreServer, StoreError> {
        let connected = connect(config, &self.endpoint(host_port)?).await;
        connected.map_err(|error| match error.is_from_replica() {
            true => StoreError::not_ready(format!(
                "the sentinels report {host_port} as master, but it says that it is none: a failover may be in progress"
            )),
            false => error,
        })
    }
}

/// Whether this report comes from a sentinel that was partitioned and names an earlier master. Epochs restart only
/// if the sentinels were reset, and then most of them report it, and none the known epoch.
const fn is_stale(found: &MasterReport, known_epoch: u64) -> bool {
    found.epoch < known_epoch && !found.by_majority
}

/// Connects to a server. Fails unless it is a master that has loaded its data.
async fn connect(
    config: &StoreConfig,
    endpoint: &ServerEndpoint,
) -> Result<StoreServer, StoreError> {
    let mut server = endpoint.clone().connect().await?;
    // All sections: a server that is too old accepts one name only.
    let info = ServerInfo::read(&server.session(config.command_timeout), &[]).await?;
    info.check_master()?;
    server.run_id = info.run_id().map(str::to_owned);
    Ok(server)
}
