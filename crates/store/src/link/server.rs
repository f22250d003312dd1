//! A server, and the connections to it.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use redis::{Client, FromRedisValue, ProtocolVersion};
use tokio::sync::{Mutex, MutexGuard};
use tokio::time::{sleep, timeout};
use tokio_util::sync::CancellationToken;

use super::barrier::Barriers;
use super::connection::RedisConnection;
use super::host_port::HostPort;
use super::upload_turns::{UploadTurn, UploadTurns};
use super::waits::{FAREWELL, Timeouts, bounded};
use crate::call_metrics::CallMetrics;
use crate::clocks::Clock;
use crate::error::StoreError;
use crate::script::VerbScript;

/// A server to connect to.
#[derive(Clone)]
pub(crate) struct ServerEndpoint {
    pub(crate) client: Client,
    pub(super) waits: Timeouts,
}

/// A connected server. Connections are restored automatically.
pub(crate) struct StoreServer {
    pub(crate) client: Client,
    pub(crate) connection: RedisConnection,
    /// Large transfers use this connection, so that small calls do not wait behind them. It is opened when it is first
    /// used.
    large_transfers: RedisConnection,
    upload_turns: UploadTurns,
    /// Held by the call that changes many jobs, of which there is one at a time.
    bulk_turn: Mutex<()>,
    /// `WAIT` and `WAITAOF` use separate connections, since they block them.
    pub(crate) barriers: Barriers,
    pub(crate) measures: CallMetrics,
    /// The last known time of its clock.
    pub(crate) clock: Clock,
    /// Its address, as in logs.
    pub(crate) address: Arc<str>,
    /// The `run_id` of the server process when it was connected; `None` on a cluster, or if a proxy hides it.
    pub(super) run_id: Option<String>,
    /// Whether a connection led to a replica or to another server process. New connections to the address lead
    /// elsewhere.
    is_misled: Arc<AtomicBool>,
    /// Number of scripts that write and were executed. Each one shows that the server is a master.
    writes: AtomicU64,
    /// Cancelled when another server has taken its place, so that no reply is expected any more.
    abandoned: CancellationToken,
}

/// A connection with a time limit for replies.
pub(crate) struct TimedConnection<'a> {
    redis_connection: &'a RedisConnection,
    wait: Duration,
}

impl ServerEndpoint {
    pub(crate) async fn connect(self) -> Result<StoreServer, StoreError> {
        let config = self.waits.manager_config();
        let large_transfers =
            RedisConnection::lazy(self.client.clone(), config.clone(), self.waits)?;
        let opening = RedisConnection::open(self.client.clone(), config, self.waits);
        let is_misled = Arc::new(AtomicBool::new(false));
        let barriers = Barriers::new(self.client.clone(), self.waits, Arc::clone(&is_misled));
        let node = self.client.get_connection_info().addr().to_string();
        Ok(StoreServer {
            client: self.client,
            address: node.as_str().into(),
            measures: CallMetrics::new(node),
            connection: opening.await?,
            large_transfers,
            upload_turns: UploadTurns::default(),
            bulk_turn: Mutex::default(),
            barriers,
            clock: Clock::default(),
            run_id: None,
            is_misled,
            writes: AtomicU64::new(0),
            abandoned: CancellationToken::new(),
        })
    }
}

impl StoreServer {
    /// Host and port; `None` if it is reached over a Unix socket.
    pub(crate) fn host_port(&self) -> Option<HostPort> {
        HostPort::of_address(self.client.get_connection_info().addr())
    }

    /// The connection for a call.
    pub(crate) const fn connection_for(&self, is_large: bool) -> &RedisConnection {
        match is_large {
            true => &self.large_transfers,
            false => &self.connection,
        }
    }

    /// Whether its process had this `run_id` when it was connected.
    pub(crate) fn has_run_id(&self, run_id: Option<&str>) -> bool {
        self.run_id.as_deref() == run_id
    }

    /// Whether its process is known, so that connections that lead to another one can be detected.
    pub(crate) const fn is_identified(&self) -> bool {
        self.run_id.is_some()
    }

    /// Records that a connection led to a replica or to another server process.
    pub(crate) fn mark_misled(&self) {
        self.is_misled.store(true, Ordering::Relaxed);
    }

    pub(super) fn is_misled(&self) -> bool {
        self.is_misled.load(Ordering::Relaxed)
    }

    /// Records that a script that writes was executed.
    pub(crate) fn record_write(&self) {
        self.writes.fetch_add(1, Ordering::Relaxed);
    }

    /// The number of writes, and the number of times that the connection of calls broke.
    pub(super) fn writes_and_breaks(&self) -> (u64, u64) {
        let writes = self.writes.load(Ordering::Relaxed);
        (writes, self.connection.breaks())
    }

    /// Makes calls in flight fail soon: another server has taken its place.
    pub(super) fn abandon(&self) {
        self.abandoned.cancel();
    }

    /// Waits until another server has taken its place, and replies in flight have had time to arrive. Cancel safe.
    pub(crate) async fn abandoned(&self) {
        self.abandoned.cancelled().await;
        sleep(FAREWELL).await;
    }

    /// Waits until an upload of this size may be sent on the connection for large transfers.
    ///
    /// # Errors
    /// Other uploads took too long. Nothing was sent.
    pub(crate) async fn upload_turn(&self, bytes: usize) -> Result<UploadTurn, StoreError> {
        self.upload_turns.wait(bytes).await
    }

    /// Waits until a call that changes many jobs may be sent.
    ///
    /// # Errors
    /// Others took longer than `limit`. Nothing was sent.
    pub(crate) async fn bulk_turn(
        &self,
        limit: Duration,
    ) -> Result<MutexGuard<'_, ()>, StoreError> {
        let turn = timeout(limit, self.bulk_turn.lock()).await;
        turn.map_err(|_| StoreError::timed_out(limit))
    }

    /// A client for subscriptions. It uses RESP3, in which messages are distinct from replies.
    pub(crate) fn client_for_messages(&self) -> redis::RedisResult<Client> {
        let info = self.client.get_connection_info().clone();
        let settings = info.redis_settings().clone();
        Client::open(info.set_redis_settings(settings.set_protocol(ProtocolVersion::RESP3)))
    }

    pub(crate) fn session(&self, wait: Duration) -> TimedConnection<'_> {
        TimedConnection {
            redis_connection: &self.connection,
            wait,
        }
    }

    /// Reads the replication history of the server.
    ///
    /// # Errors
    /// The server does not reply, or denies `INFO`.
    pub(crate) async fn read_replication_history(
        &self,
        timeout: Duration,
    ) -> Result<(), StoreError> {
        let mut info = redis::cmd("INFO");
        info.arg("server").arg("replication");
        let reply = self.session(timeout).command::<String>(&info).await;
        let info = reply.inspect_err(|error| {
            tracing::debug!(server = %self, %error, "failed to read the replication history");
        })?;
        self.barriers.history.since(&info);
        Ok(())
    }
}

impl TimedConnection<'_> {
    /// Runs a command.
    pub(crate) async fn command<T: FromRedisValue>(
        &self,
        command: &redis::Cmd,
    ) -> Result<T, StoreError> {
        let mut redis_connection = self.redis_connection;
        bounded(self.wait, command.query_async(&mut redis_connection)).await
    }

    /// Runs a script without keys.
    pub(crate) async fn script(
        &self,
        script: &VerbScript,
        arguments: &[&str],
    ) -> Result<redis::Value, StoreError> {
        let mut redis_connection = self.redis_connection;
        bounded(self.wait, script.run(arguments, &mut redis_connection)).await
    }
}

/// The address of the server, without user and password.
impl fmt::Display for StoreServer {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.client.get_connection_info().addr().fmt(out)
    }
}

impl fmt::Debug for StoreServer {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "Server({self})")
    }
}
