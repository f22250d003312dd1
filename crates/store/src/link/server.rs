//! One server: how it is reached, and a connection to it.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use redis::aio::ConnectionManagerConfig;
use redis::io::tcp::{TcpSettings, socket2::TcpKeepalive};
use redis::{Client, ConnectionAddr, FromRedisValue, ProtocolVersion};

use super::barrier::Barriers;
use super::line::Line;
use super::route::Place;
use crate::clocks::Clock;
use crate::measures::Measures;
use crate::script::VerbScript;
use crate::{StoreConfig, StoreError};

/// A server that may be connected to.
pub(crate) struct Endpoint {
    pub(crate) client: Client,
    waits: Waits,
}

/// The longest waits for a server.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Waits {
    pub(crate) connect: Duration,
    pub(crate) command: Duration,
}

/// A server that was connected to. The connections look after themselves from then on.
pub(crate) struct Server {
    pub(crate) client: Client,
    pub(crate) line: Line,
    /// What may take long to transfer goes over this one, so that nothing small has to wait behind it.
    /// Connected when it is first used.
    large_transfers: Line,
    /// What waits for copies goes over connections of its own, since it blocks them.
    pub(crate) barriers: Barriers,
    pub(crate) measures: Measures,
    /// What its clock showed last.
    pub(crate) clock: Clock,
    /// Where it is, as logs name it.
    pub(crate) address: Arc<str>,
}

/// A connection, and the longest wait for an answer on it.
pub(crate) struct Session<'a> {
    line: &'a Line,
    wait: Duration,
}

impl Waits {
    pub(crate) const fn of(config: &StoreConfig) -> Self {
        Self {
            connect: config.connect_timeout,
            command: config.command_timeout,
        }
    }

    /// A server that vanished without a word is noticed by the kernel, and the connection replaced.
    pub(crate) fn tcp_settings(self) -> TcpSettings {
        let probing = TcpKeepalive::new().with_time(Duration::from_secs(10));
        let settings = TcpSettings::default()
            .set_nodelay(true)
            .set_keepalive(probing);
        #[cfg(target_os = "linux")]
        let settings = settings.set_user_timeout(self.command);
        settings
    }

    /// While Redis is away a call fails after one more try to connect: the caller is told soon, and the
    /// first call after Redis came back finds it.
    pub(super) fn manager_config(self) -> ConnectionManagerConfig {
        ConnectionManagerConfig::new()
            .set_number_of_retries(1)
            .set_min_delay(Duration::from_millis(50))
            .set_max_delay(Duration::from_millis(100))
            .set_connection_timeout(Some(self.connect))
            .set_response_timeout(Some(self.command))
    }
}

impl Endpoint {
    pub(crate) const fn new(client: Client, waits: Waits) -> Self {
        Self { client, waits }
    }

    pub(crate) async fn connect(self) -> Result<Server, StoreError> {
        let config = self.waits.manager_config();
        let large_transfers = Line::lazy(self.client.clone(), config.clone(), self.waits)?;
        let opening = Line::open(self.client.clone(), config, self.waits);
        let barriers = Barriers::new(self.client.clone(), self.waits);
        let node = self.client.get_connection_info().addr().to_string();
        Ok(Server {
            client: self.client,
            address: node.as_str().into(),
            measures: Measures::new(node),
            line: opening.await?,
            large_transfers,
            barriers,
            clock: Clock::default(),
        })
    }
}

impl Server {
    /// Host and port, unless it is reached over a socket of the file system.
    pub(crate) fn place(&self) -> Option<Place> {
        match self.client.get_connection_info().addr() {
            ConnectionAddr::Tcp(host, port) | ConnectionAddr::TcpTls { host, port, .. } => {
                let (host, port) = (host.clone(), *port);
                Some(Place { host, port })
            }
            _ => None,
        }
    }

    /// The connection that a call goes over.
    pub(crate) const fn line(&self, is_large: bool) -> &Line {
        match is_large {
            true => &self.large_transfers,
            false => &self.line,
        }
    }

    /// How a connection for messages is made: they come as pushes, which replies are told from.
    pub(crate) fn client_for_messages(&self) -> redis::RedisResult<Client> {
        let info = self.client.get_connection_info().clone();
        let settings = info.redis_settings().clone();
        Client::open(info.set_redis_settings(settings.set_protocol(ProtocolVersion::RESP3)))
    }

    pub(crate) fn session(&self, wait: Duration) -> Session<'_> {
        Session {
            line: &self.line,
            wait,
        }
    }
}

impl Session<'_> {
    /// Runs one plain command.
    pub(crate) async fn command<T: FromRedisValue>(
        &self,
        command: &redis::Cmd,
    ) -> Result<T, StoreError> {
        let mut line = self.line;
        bounded(self.wait, command.query_async(&mut line)).await
    }

    /// Runs a script that touches no key.
    pub(crate) async fn script(
        &self,
        script: &VerbScript,
        arguments: &[&str],
    ) -> Result<redis::Value, StoreError> {
        let mut line = self.line;
        bounded(self.wait, script.run(arguments, &mut line)).await
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

/// Where the server is, and nothing of who asks.
impl fmt::Display for Server {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.client.get_connection_info().addr().fmt(out)
    }
}

impl fmt::Debug for Server {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "Server({self})")
    }
}
