//! The connection to a server, replaced where the client library would keep one that is of no use.
//!
//! | the connection | who notices |
//! |---|---|
//! | has ended | the client library; the next call connects again |
//! | answers nothing | calls that are given up while no other call is answered |
//! | was refused while it was set up (login, database, protocol) | the call that waited for it; a later call connects again |
//! | was idle for some time | the next call, which sends `PING` first |
//!
//! The library connects again after I/O errors only: after a refused login each further call would get the same error, for ever.
//! A connection that is half open does not end: what is sent arrives nowhere, and no error is returned. Where nothing confirms
//! what was sent the kernel finds that out (`Waits::tcp_settings`). Something in between, such as a proxy beside a container
//! or one that ends TLS, confirms it all the same; then only missing answers show it.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use arc_swap::ArcSwap;
use redis::aio::{ConnectionLike, ConnectionManager, ConnectionManagerConfig};
use redis::{Client, Cmd, ErrorKind, Pipeline, RedisError, RedisFuture, RedisResult, Value};
use tokio::sync::Mutex;
use tokio::time::timeout;

use super::server::Waits;
use super::silence::Silence;

/// The shortest time between a refused login and the next one.
const LOGIN_PAUSE: Duration = Duration::from_millis(200);
/// A call that waited for less is not the sign of anything: its client has left.
const GIVEN_UP_MIN: Duration = Duration::from_millis(100);
/// A connection that has been idle for so long is checked before it is used: servers (`timeout`), proxies and firewalls end
/// such connections. Longer than the interval at which the topology of a cluster is read, so that a process without
/// requests sends no checks.
const IDLE_MAX: Duration = Duration::from_millis(2500);

pub(crate) struct Line {
    client: Client,
    config: ConnectionManagerConfig,
    waits: Waits,
    current: ArcSwap<Current>,
    opened_at: Instant,
    /// When the last answer came, in µs since it was opened.
    heard_at_us: AtomicU64,
    silence: Silence,
    /// When the last call ended, whether it was answered or not, or the connection was checked.
    used_at_us: AtomicU64,
    /// Calls that are not answered yet.
    pending: AtomicUsize,
    /// Held by the call that checks an idle connection.
    checking: Mutex<()>,
    /// The server refused the last connection, and that was logged.
    is_refused: AtomicBool,
}

struct Current {
    connection: ConnectionManager,
    made_at: Instant,
    /// When it was refused, in µs since the line was opened; 0 = it was not.
    refused_at_us: AtomicU64,
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
        waits: Waits,
    ) -> RedisResult<Self> {
        let connecting = ConnectionManager::new_with_config(client.clone(), config.clone());
        Ok(Self::over(connecting.await?, client, config, waits))
    }

    /// Connects with the first call.
    pub(super) fn lazy(
        client: Client,
        config: ConnectionManagerConfig,
        waits: Waits,
    ) -> RedisResult<Self> {
        let connection = ConnectionManager::new_lazy_with_config(client.clone(), config.clone())?;
        Ok(Self::over(connection, client, config, waits))
    }

    fn over(
        connection: ConnectionManager,
        client: Client,
        config: ConnectionManagerConfig,
        waits: Waits,
    ) -> Self {
        Self {
            client,
            config,
            waits,
            current: ArcSwap::from_pointee(Current::new(connection)),
            opened_at: Instant::now(),
            heard_at_us: AtomicU64::new(0),
            silence: Silence::default(),
            used_at_us: AtomicU64::new(0),
            pending: AtomicUsize::new(0),
            checking: Mutex::new(()),
            is_refused: AtomicBool::new(false),
        }
    }

    /// Sends a command once, and waits for its answer. An error of the server is a value; `Err` is one of the
    /// connection.
    pub(crate) async fn send(&self, command: &Cmd) -> RedisResult<Value> {
        let send =
            async |mut connection: ConnectionManager| connection.send_packed_command(command).await;
        self.call(send).await
    }

    /// The same for several commands in one piece.
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

    async fn call<T>(
        &self,
        send: impl AsyncFnOnce(ConnectionManager) -> RedisResult<T>,
    ) -> RedisResult<T> {
        if self.is_idle() {
            self.check().await;
        }
        let current = self.usable();
        let pending = Pending::new(self);
        let answer = send(current.connection.clone()).await;
        let answer = self.noted(&current, answer);
        drop(pending);
        answer
    }

    /// The connection for the next call: another one where the last one was refused some time ago.
    fn usable(&self) -> Arc<Current> {
        let current = self.current.load_full();
        match current.refused_at_us.load(Ordering::Relaxed) {
            0 => return current,
            at_us if self.since(at_us) < LOGIN_PAUSE => return current,
            _ => self.replace(&current),
        }
        self.current.load_full()
    }

    /// Notes what an answer, or its absence, says about the connection.
    fn noted<T>(&self, current: &Current, answer: RedisResult<T>) -> RedisResult<T> {
        match answer {
            Ok(answer) => {
                let now_us = self.micros(Instant::now());
                self.heard_at_us.store(now_us, Ordering::Relaxed);
                if self.is_refused.load(Ordering::Relaxed)
                    && self.is_refused.swap(false, Ordering::Relaxed)
                {
                    tracing::info!(server = %self.client.get_connection_info().addr(), "redis accepts connections again");
                }
                Ok(answer)
            }
            // The library replaces the connection itself.
            Err(error) if error.is_io_error() => Err(error),
            Err(error) => {
                self.is_refused_now(current);
                if !self.is_refused.swap(true, Ordering::Relaxed) {
                    tracing::warn!(
                        server = %self.client.get_connection_info().addr(), %error,
                        "redis refused a connection; connecting again with later calls, every {LOGIN_PAUSE:?} at most"
                    );
                }
                Err(refused(error))
            }
        }
    }

    /// Notes when a connection was refused first: its later calls get the same error without another attempt.
    fn is_refused_now(&self, current: &Current) {
        let now_us = self.micros(Instant::now()).max(1);
        let refused_at_us = &current.refused_at_us;
        let _ = refused_at_us.compare_exchange(0, now_us, Ordering::Relaxed, Ordering::Relaxed);
    }

    fn is_idle(&self) -> bool {
        let used_at_us = self.used_at_us.load(Ordering::Relaxed);
        self.pending.load(Ordering::Relaxed) == 0 && self.since(used_at_us) > IDLE_MAX
    }

    /// Asks for a sign of life over a connection that was idle. One that has ended, or does not answer, is replaced before
    /// the call is sent, which is sent once.
    async fn check(&self) {
        let _one_at_a_time = self.checking.lock().await;
        if !self.is_idle() {
            return;
        }
        let current = self.usable();
        let mut connection = current.connection.clone();
        let ping = redis::cmd("PING");
        let checking = connection.send_packed_command(&ping);
        match timeout(self.waits.connect, checking).await {
            // Where it has ended the library has begun to connect again.
            Ok(answer) => drop(self.noted(&current, answer)),
            Err(_) => {
                tracing::debug!(server = %self.client.get_connection_info().addr(), "an idle connection to redis is replaced");
                self.replace(&current);
            }
        }
        // Also after a failure: the call that follows is a better check.
        self.is_used();
    }

    /// A call that began at this moment was given up. If calls have been given up for as long as a command may take, and
    /// none was answered, further ones go over a new connection.
    fn unanswered(&self, since: Instant) {
        let current = self.current.load_full();
        if current.made_at > since {
            return;
        }
        let (began_us, now_us) = (self.micros(since), self.micros(Instant::now()));
        let heard_us = self.heard_at_us.load(Ordering::Relaxed);
        let silent_us = self.silence.given_up(began_us, now_us, heard_us);
        if Duration::from_micros(silent_us) < self.waits.command {
            return;
        }
        tracing::warn!("redis answers nothing; further calls go over a new connection");
        self.replace(&current);
    }

    /// Has further calls go over a new connection, unless that has happened already.
    fn replace(&self, current: &Arc<Current>) {
        self.silence.over();
        match ConnectionManager::new_lazy_with_config(self.client.clone(), self.config.clone()) {
            Ok(connection) => {
                let new = Arc::new(Current::new(connection));
                drop(self.current.compare_and_swap(current, new));
            }
            Err(error) => tracing::error!(%error, "a connection cannot be replaced"),
        }
    }

    fn is_used(&self) {
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

/// What a server says while a connection is set up is about the login, and not about what was to be sent.
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

impl Current {
    fn new(connection: ConnectionManager) -> Self {
        Self {
            connection,
            made_at: Instant::now(),
            refused_at_us: AtomicU64::new(0),
        }
    }
}

impl<'a> Pending<'a> {
    fn new(line: &'a Line) -> Self {
        line.pending.fetch_add(1, Ordering::Relaxed);
        Self {
            line,
            since: Instant::now(),
        }
    }
}

impl Drop for Pending<'_> {
    fn drop(&mut self) {
        self.line.is_used();
        self.line.pending.fetch_sub(1, Ordering::Relaxed);
        if self.since.elapsed() >= GIVEN_UP_MIN {
            self.line.unanswered(self.since);
        }
    }
}

impl ConnectionLike for &Line {
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
