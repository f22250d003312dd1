//! Asks sentinels for the master.

use std::collections::HashMap;
use std::time::Duration;

use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use redis::aio::MultiplexedConnection;
use redis::{AsyncConnectionConfig, Client};

use super::host_port::HostPort;
use super::server::ServerEndpoint;
use super::waits::bounded;
use crate::error::{StoreError, Unavailable};

/// The sentinels of a deployment, with a connection to each that replied last time.
pub(crate) struct Sentinels {
    pub(super) all: Vec<Sentinel>,
    pub(super) name: String,
}

pub(crate) struct Sentinel {
    host_port: HostPort,
    endpoint: ServerEndpoint,
    connection: Option<MultiplexedConnection>,
}

/// The master as sentinels report it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct MasterReport {
    pub(crate) master: HostPort,
    /// Increases with each failover. A sentinel that was partitioned has an earlier epoch.
    pub(crate) epoch: u64,
    /// Whether more than half of the sentinels replied.
    pub(crate) by_majority: bool,
}

impl Sentinels {
    /// Asks all sentinels at the same time, until more than half have replied and one of them knows an epoch of at
    /// least `known_epoch`, or all have replied or failed. Returns the reply with the latest epoch.
    ///
    /// Right after a failover that was requested, only the sentinel that made it knows the new epoch: the others,
    /// although they are the majority, name the old master until they have its message, for up to two seconds.
    ///
    /// # Errors
    /// None of them reports a master. The text contains the reply of each.
    pub(crate) async fn find_master(
        &mut self,
        known_epoch: u64,
    ) -> Result<MasterReport, StoreError> {
        let majority = self.all.len() / 2 + 1;
        let name = self.name.as_str();
        let mut queries: FuturesUnordered<_> =
            self.all.iter_mut().map(|one| one.query(name)).collect();
        let (mut answers, mut refusals) = (Vec::new(), Vec::new());
        let is_enough = |answers: &[(HostPort, u64)]| {
            answers.len() >= majority && answers.iter().any(|(_, epoch)| *epoch >= known_epoch)
        };
        while !is_enough(&answers) {
            match queries.next().await {
                Some(Ok(answer)) => answers.push(answer),
                Some(Err(said)) => refusals.push(said),
                None => break,
            }
        }
        let by_majority = answers.len() >= majority;
        let youngest = answers.into_iter().max_by_key(|(_, epoch)| *epoch);
        let (master, epoch) = youngest.ok_or_else(|| {
            let said = refusals.join("; ");
            StoreError::unreachable(format!("no sentinel knows the master {name:?}: {said}"))
        })?;
        Ok(MasterReport {
            master,
            epoch,
            by_majority,
        })
    }
}

impl Sentinel {
    pub(super) const fn new(host_port: HostPort, endpoint: ServerEndpoint) -> Self {
        Self {
            host_port,
            endpoint,
            connection: None,
        }
    }

    /// The address of the master and the epoch; or a text with the address of the sentinel and the error.
    async fn query(&mut self, name: &str) -> Result<(HostPort, u64), String> {
        let answer = match self.exchange(name).await {
            Ok(Some(answer)) => return Ok(answer),
            Ok(None) => "it monitors no master of this name, check master_name".to_owned(),
            Err(error) => {
                self.connection = None;
                error_text(error)
            }
        };
        Err(format!("{}: {answer}", self.host_port))
    }

    /// The epoch is read first: otherwise an old address could be combined with a new epoch.
    async fn exchange(&mut self, name: &str) -> Result<Option<(HostPort, u64)>, StoreError> {
        let wait = self.endpoint.waits.connect;
        let connection = match &mut self.connection {
            Some(connection) => connection,
            none => none.insert(connect(&self.endpoint.client, wait).await?),
        };
        let ask = |what: &str| redis::cmd("SENTINEL").arg(what).arg(name).to_owned();
        let state = bounded(wait, ask("MASTER").query_async(connection)).await;
        let state: HashMap<String, String> = match state {
            Err(error) if error.to_string().contains("No such master") => return Ok(None),
            state => state?,
        };
        let epoch = state.get("config-epoch").and_then(|text| text.parse().ok());
        let ask_place = ask("GET-MASTER-ADDR-BY-NAME");
        let host_port: Option<(String, u16)> =
            bounded(wait, ask_place.query_async(connection)).await?;
        Ok(host_port.map(|(host, port)| (HostPort { host, port }, epoch.unwrap_or_default())))
    }
}

fn error_text(error: StoreError) -> String {
    match error {
        StoreError::Unavailable {
            reason: Unavailable::Forbidden,
            detail,
        } => format!("{detail}, check sentinel_username and sentinel_password"),
        StoreError::Unavailable { detail, .. } => detail,
        error => error.to_string(),
    }
}

async fn connect(client: &Client, wait: Duration) -> Result<MultiplexedConnection, StoreError> {
    let config = AsyncConnectionConfig::new()
        .set_connection_timeout(Some(wait))
        .set_response_timeout(Some(wait));
    bounded(
        wait,
        client.get_multiplexed_async_connection_with_config(&config),
    )
    .await
}
