//! A connection to a server. It is replaced where the client library would keep a connection that no longer works.
//!
//! | the connection | how this is detected |
//! |---|---|
//! | is closed | by the client library; the next call reconnects |
//! | does not reply | calls time out while no other call gets a reply |
//! | was rejected during setup (login, database, protocol) | by the call that waited for it; a later call reconnects |
//! | was idle for some time | by the next call, which sends `PING` first |
//!
//! The library reconnects after I/O errors only: after a rejected login every later call would get the same error, for
//! ever. A half-open connection returns no error, although nothing that is sent arrives. If it is not acknowledged, the
//! kernel detects this (`Waits::tcp_settings`). A proxy, such as a sidecar or a terminator of TLS, acknowledges it
//! nevertheless; then only missing replies reveal it.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use arc_swap::ArcSwap;
use redis::aio::{ConnectionLike, ConnectionManager, ConnectionManagerConfig};
use redis::{Client, Cmd, ErrorKind, Pipeline, RedisError, RedisFuture, RedisResult, Value};
use tokio::runtime::Handle;
use tokio::sync::Mutex;
use tokio::time::timeout;

use super::in_runtime::in_runtime;
use super::no_reply_timer::NoReplyTimer;
use super::waits::Timeouts;

/// Least time between a rejected login and the next attempt.
const LOGIN_PAUSE: Duration = Duration::from_millis(200);
/// A call that is cancelled earlier than this is no sign of a broken connection: its client has disconnected.
const GIVEN_UP_MIN: Duration = Duration::from_millis(100);
/// A connection that has been idle for longer than this is checked before it is used: servers (`timeout`), proxies and
/// firewalls close idle connections. It exceeds the interval at which the topology of a cluster is read, so that a
/// process without requests sends no checks.
const IDLE_MAX: Duration = Duration::from_millis(2500);

pub(crate) struct RedisConnection {
    client: Client,
    /// The runtime in which it was made. Its socket belongs there, also after a reconnect that a call of another
    /// runtime has caused.
    runtime: Handle,
    config: ConnectionManagerConfig,
    waits: Timeouts,
    current: ArcSwap<CurrentConnection>,
    opened_at: Instant,
    /// When the last reply was received, in µs since `opened_at`.
    replied_at_us: AtomicU64,
    no_reply_timer: NoReplyTimer,
    /// When the last call ended, with or without a reply, or the connection was checked, in µs since `opened_at`.
    used_at_us: AtomicU64,
    /// Calls in flight.
    pending: AtomicUsize,
    /// Held by the call that checks an idle connection.
    checking: Mutex<()>,
    /// Whether the server rejected the last connection, which is logged once.
    is_refused: AtomicBool,
    /// Number of calls that found the connection closed. Afterwards it may lead to another server.
    breaks: AtomicU64,
}

struct CurrentConnection {
    connection: ConnectionManager,
    made_at: Instant,
    /// When it was rejected, in µs since `Connection::opened_at`; 0 = it was not.
    refused_at_us: AtomicU64,
}

/// A call in flight. Dropping it without a reply gives it up.
struct InFlightCall<'a> {
    redis_connection: &'a RedisConnection,
    since: Instant,
}

impl RedisConnection {
    /// Connects at once.
    pub(super) async fn open(
        client: Client,
        config: ConnectionManagerConfig,
        waits: Timeouts,
    ) -> RedisResult<Self> {
        let connecting = ConnectionManager::new_with_config(client.clone(), config.clone());
        Ok(Self::over(connecting.await?, client, config, waits))
    }

    /// Connects at the first call. Must be called inside the runtime of the connection.
    pub(super) fn lazy(
        client: Client,
        config: ConnectionManagerConfig,
        waits: Timeouts,
    ) -> RedisResult<Self> {
        let connection = ConnectionManager::new_lazy_with_config(client.clone(), config.clone())?;
        Ok(Self::over(connection, client, config, waits))
    }

    fn over(
        connection: ConnectionManager,
        client: Client,
        config: ConnectionManagerConfig,
        waits: Timeouts,
    ) -> Self {
        Self {
            client,
            runtime: Handle::current(),
            config,
            waits,
            current: ArcSwap::from_pointee(CurrentConnection::new(connection)),
            opened_at: Instant::now(),
            replied_at_us: AtomicU64::new(0),
            no_reply_timer: NoReplyTimer::default(),
            used_at_us: AtomicU64::new(0),
            pending: AtomicUsize::new(0),
            checking: Mutex::new(()),
            is_refused: AtomicBool::new(false),
            breaks: AtomicU64::new(0),
        }
    }

    pub(super) fn breaks(&self) -> u64 {
        self.breaks.load(Ordering::Relaxed)
    }

    /// Sends a command once, and waits for its reply. An error reply of the server is a value; `Err` is an error of the
    /// connection.
    pub(crate) async fn send(&self, command: &Cmd) -> RedisResult<Value> {
        let send =
            async |mut connection: ConnectionManager| connection.send_packed_command(command).await;
        self.call(send).await
    }

    /// The same for several commands in one pipeline.
    pub(crate) async fn send_all(
        &self,
        commands: &Pipeline,
        offset: usize,
        count: usize,
    ) -> RedisResult<Vec<Value>> {
        let send = async |mut connection: ConnectionManager| {
            let answers = connection.send_packed_commands(commands, offset, count);
            answers.await
        };
        self.call(send).await
    }

    /// Sends a command that does not count as a use: a connection without other calls stays idle, so the next call
    /// checks it first.
    pub(super) async fn probe(&self, command: &Cmd) -> RedisResult<Value> {
        let current = self.connection_to_use();
        let mut connection = current.connection.clone();
        let answer = in_runtime(&self.runtime, connection.send_packed_command(command)).await;
        self.record_result(&current, answer)
    }

    async fn call<T>(
        &self,
        send: impl AsyncFnOnce(ConnectionManager) -> RedisResult<T>,
    ) -> RedisResult<T> {
        if self.is_idle() {
            self.check().await;
        }
        let current = self.connection_to_use();
        let pending = InFlightCall::new(self);
        let answer = in_runtime(&self.runtime, send(current.connection.clone())).await;
        let answer = self.record_result(&current, answer);
        drop(pending);
        answer
    }

    /// The connection for the next call: a new one if the last one was rejected at least [`LOGIN_PAUSE`] ago.
    fn connection_to_use(&self) -> Arc<CurrentConnection> {
        let current = self.current.load_full();
        match current.refused_at_us.load(Ordering::Relaxed) {
            0 => return current,
            at_us if self.since(at_us) < LOGIN_PAUSE => return current,
            _ => self.replace(&current),
        }
        self.current.load_full()
    }

    /// Updates the state of the connection from the result of a call.
    fn record_result<T>(
        &self,
        current: &CurrentConnection,
        answer: RedisResult<T>,
    ) -> RedisResult<T> {
        match answer {
            Ok(answer) => {
                let now_us = self.micros(Instant::now());
                self.replied_at_us.store(now_us, Ordering::Relaxed);
                self.record_acceptance();
                Ok(answer)
            }
            // The library reconnects.
            Err(error) if error.is_io_error() => {
                self.breaks.fetch_add(1, Ordering::Relaxed);
                Err(error)
            }
            Err(error) => {
                self.record_rejection(current);
                if !self.is_refused.swap(true, Ordering::Relaxed) {
                    tracing::warn!(
                        server = %self.client.get_connection_info().addr(), %error,
                        "redis refused a connection: check user, password and database; later calls reconnect, at most every {LOGIN_PAUSE:?}"
                    );
                }
                Err(refused(error))
            }
        }
    }

    /// Records that the server accepts logins.
    pub(super) fn record_acceptance(&self) {
        if self.is_refused.load(Ordering::Relaxed) && self.is_refused.swap(false, Ordering::Relaxed)
        {
            tracing::info!(server = %self.client.get_connection_info().addr(), "redis accepts connections again");
        }
    }

    /// Records when a connection was rejected first: its later calls get the same error without another attempt.
    fn record_rejection(&self, current: &CurrentConnection) {
        let now_us = self.micros(Instant::now()).max(1);
        let refused_at_us = &current.refused_at_us;
        let _ = refused_at_us.compare_exchange(0, now_us, Ordering::Relaxed, Ordering::Relaxed);
    }

    fn is_idle(&self) -> bool {
        let used_at_us = self.used_at_us.load(Ordering::Relaxed);
        self.pending.load(Ordering::Relaxed) == 0 && self.since(used_at_us) > IDLE_MAX
    }

    /// Sends `PING` over a connection that was idle. If it is closed or does not reply, it is replaced. This happens
    /// before the call is sent, because a call is sent only once.
    async fn check(&self) {
        let _one_at_a_time = self.checking.lock().await;
        if !self.is_idle() {
            return;
        }
        let current = self.connection_to_use();
        let mut connection = current.connection.clone();
        let ping = redis::cmd("PING");
        let checking = in_runtime(&self.runtime, connection.send_packed_command(&ping));
        match timeout(self.waits.connect, checking).await {
            // If it is closed, the library is reconnecting now.
            Ok(answer) => drop(self.record_result(&current, answer)),
            Err(_) => {
                tracing::debug!(server = %self.client.get_connection_info().addr(), "an idle connection to redis does not reply; replacing it");
                self.replace(&current);
            }
        }
        // Also after a failure: the next call is the next check.
        self.record_use();
    }

    /// Records that a call that began at `since` was given up. If calls have been given up for as long as the command
    /// timeout, and none got a reply, later calls use a new connection.
    fn record_given_up(&self, since: Instant) {
        let current = self.current.load_full();
        if current.made_at > since {
            return;
        }
        let (began_us, now_us) = (self.micros(since), self.micros(Instant::now()));
        let heard_us = self.replied_at_us.load(Ordering::Relaxed);
        let silent_us = self
            .no_reply_timer
            .record_given_up(began_us, now_us, heard_us);
        if Duration::from_micros(silent_us) < self.waits.command {
            return;
        }
        tracing::warn!(
            server = %self.client.get_connection_info().addr(),
            "redis does not reply; later calls use a new connection"
        );
        self.replace(&current);
    }

    /// Replaces this connection for later calls, unless it was replaced already.
    fn replace(&self, current: &Arc<CurrentConnection>) {
        self.no_reply_timer.reset();
        let _inside = self.runtime.enter();
        match ConnectionManager::new_lazy_with_config(self.client.clone(), self.config.clone()) {
            Ok(connection) => {
                let new = Arc::new(CurrentConnection::new(connection));
                drop(self.current.compare_and_swap(current, new));
            }
            Err(error) => tracing::error!(%error, "failed to replace a connection to redis"),
        }
    }

    fn record_use(&self) {
        let now_us = self.micros(Instant::now());
        self.used_at_us.store(now_us, Ordering::Relaxed);
    }

    fn micros(&self, at: Instant) -> u64 {
        let since = at.saturating_duration_since(self.opened_at);
        u64::try_from(since.as_micros()).unwrap_or(u64::MAX)
    }

    fn since(&self, at_us: u64) -> Duration {
        let now_us = self.micros(Instant::now());
        Duration::from_micros(now_us.saturating_sub(at_us))
    }
}

/// Marks an error during connection setup as a failed login, since it does not belong to the command.
fn refused(error: RedisError) -> RedisError {
    match error.kind() {
        ErrorKind::Server(_) | ErrorKind::Extension => RedisError::from((
            ErrorKind::AuthenticationFailed,
            "the connection was refused",
            error.to_string(),
        )),
        _ => error,
    }
}

impl CurrentConnection {
    fn new(connection: ConnectionManager) -> Self {
        Self {
            connection,
            made_at: Instant::now(),
            refused_at_us: AtomicU64::new(0),
        }
    }
}

impl<'a> InFlightCall<'a> {
    fn new(redis_connection: &'a RedisConnection) -> Self {
        redis_connection.pending.fetch_add(1, Ordering::Relaxed);
        Self {
            redis_connection,
            since: Instant::now(),
        }
    }
}

impl Drop for InFlightCall<'_> {
    fn drop(&mut self) {
        self.redis_connection.record_use();
        self.redis_connection
            .pending
            .fetch_sub(1, Ordering::Relaxed);
        if self.since.elapsed() >= GIVEN_UP_MIN {
            self.redis_connection.record_given_up(self.since);
        }
    }
}

impl ConnectionLike for &RedisConnection {
    fn req_packed_command<'a>(&'a mut self, command: &'a Cmd) -> RedisFuture<'a, Value> {
        Box::pin(self.send(command))
    }

    fn req_packed_commands<'a>(
        &'a mut self,
        commands: &'a Pipeline,
        offset: usize,
        count: usize,
    ) -> RedisFuture<'a, Vec<Value>> {
        Box::pin(self.send_all(commands, offset, count))
    }

    fn get_db(&self) -> i64 {
        self.client.get_connection_info().redis_settings().db()
    }
}
