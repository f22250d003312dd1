//! Asking sentinels who the master is.

use std::collections::HashMap;
use std::time::Duration;

use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use redis::AsyncConnectionConfig;
use redis::aio::MultiplexedConnection;

use super::route::Place;
use super::server::{Endpoint, bounded};
use crate::{StoreError, Unavailable};

/// The sentinels of a deployment, with a connection to each that answered last time.
pub(crate) struct Sentinels {
    all: Vec<Sentinel>,
    name: String,
}

struct Sentinel {
    place: Place,
    endpoint: Endpoint,
    connection: Option<MultiplexedConnection>,
    wait: Duration,
}

/// What sentinels say of the master.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Found {
    pub(crate) master: Place,
    /// Grows with each failover. A sentinel that was cut off still has an older one.
    pub(crate) epoch: u64,
    /// Whether more than half of the sentinels were heard.
    pub(crate) by_majority: bool,
}

impl Sentinels {
    pub(crate) fn new(endpoints: Vec<(Place, Endpoint)>, name: String, wait: Duration) -> Self {
        let all = endpoints.into_iter().map(|(place, endpoint)| Sentinel {
            place,
            endpoint,
            connection: None,
            wait,
        });
        Self {
            all: all.collect(),
            name,
        }
    }

    /// Asks all sentinels at once, and decides when more than half have answered, or nobody is left to
    /// wait for. The youngest word counts.
    ///
    /// # Errors
    /// None of them knows a master; the text has what each said.
    pub(crate) async fn find_master(&mut self) -> Result<Found, StoreError> {
        let majority = self.all.len() / 2 + 1;
        let name = self.name.as_str();
        let mut asked: FuturesUnordered<_> = self.all.iter_mut().map(|one| one.ask(name)).collect();
        let (mut answers, mut refusals) = (Vec::new(), Vec::new());
        while answers.len() < majority {
            match asked.next().await {
                Some(Ok(answer)) => answers.push(answer),
                Some(Err(said)) => refusals.push(said),
                None => break,
            }
        }
        let by_majority = answers.len() >= majority;
        let youngest = answers.into_iter().max_by_key(|(_, epoch)| *epoch);
        let (master, epoch) = youngest.ok_or_else(|| {
            let said = refusals.join("; ");
            StoreError::away(format!("no sentinel knows the master {name:?}: {said}"))
        })?;
        Ok(Found {
            master,
            epoch,
            by_majority,
        })
    }
}

impl Sentinel {
    /// Place of the master and epoch, or one line that says who could not tell, and why.
    async fn ask(&mut self, name: &str) -> Result<(Place, u64), String> {
        let wait = self.wait;
        let answer = match self.exchange(name, wait).await {
            Ok(Some(answer)) => return Ok(answer),
            Ok(None) => "it knows none of this name; see master_name".to_owned(),
            Err(error) => {
                self.connection = None;
                told(error)
            }
        };
        Err(format!("{}: {answer}", self.place))
    }

    /// The epoch is asked for first: were it the other way round, an old place could come with a new
    /// epoch.
    async fn exchange(
        &mut self,
        name: &str,
        wait: Duration,
    ) -> Result<Option<(Place, u64)>, StoreError> {
        let connection = match &mut self.connection {
            Some(connection) => connection,
            none => none.insert(connect(&self.endpoint, wait).await?),
        };
        let ask = |what: &str| redis::cmd("SENTINEL").arg(what).arg(name).to_owned();
        let state = bounded(wait, ask("MASTER").query_async(connection)).await;
        let state: HashMap<String, String> = match state {
            Err(error) if error.to_string().contains("No such master") => return Ok(None),
            state => state?,
        };
        let epoch = state.get("config-epoch").and_then(|text| text.parse().ok());
        let ask_place = ask("GET-MASTER-ADDR-BY-NAME");
        let place: Option<(String, u16)> = bounded(wait, ask_place.query_async(connection)).await?;
        Ok(place.map(|(host, port)| (Place { host, port }, epoch.unwrap_or_default())))
    }
}

fn told(error: StoreError) -> String {
    match error {
        StoreError::Unavailable {
            reason: Unavailable::Forbidden,
            detail,
        } => format!("{detail}; see sentinel_username and sentinel_password"),
        StoreError::Unavailable { detail, .. } => detail,
        error => error.to_string(),
    }
}

async fn connect(endpoint: &Endpoint, wait: Duration) -> Result<MultiplexedConnection, StoreError> {
    let config = AsyncConnectionConfig::new()
        .set_connection_timeout(Some(wait))
        .set_response_timeout(Some(wait));
    let connecting = endpoint
        .client
        .get_multiplexed_async_connection_with_config(&config);
    bounded(wait, connecting).await
}
