//! HTTP/1.1 for untrusted clients: every wait, every buffer and the number of connections is bounded.

use std::convert::Infallible;
use std::io;
use std::net::SocketAddr;
use std::sync::{Arc, LazyLock};
use std::time::Duration;

use axum::body::Body;
use axum::http::{Request, Response};
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use prometheus::{IntCounterVec, IntGauge};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::task::yield_now;
use tokio::time::{sleep, timeout};
use tokio_util::sync::CancellationToken;

use crate::bind_error::BindError;
use crate::budget::ByteBudget;
use crate::connection_permits::{AdmissionDecision, ConnectionPermits};
use crate::header_timer::ListenerState;
use crate::listen_limits::ListenLimits;
use crate::log_limit::LogLimit;
use crate::metrics::{CONNECTIONS, counters};
use crate::overload_response::respond_overloaded;
use crate::poll_on_wake::PollOnWake;
use crate::serving_threads::{ServingRuntimes, ServingThreads};
use crate::socket::{backlog, is_client_error, set_options};
use crate::waiting_connections::WaitingConnections;
use crate::watched_stream::wrap_connection;

/// Pause after an accept that failed for a local reason, such as no free file descriptor. Connections that end
/// meanwhile free one.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// Shortest time between two warnings about the same problem.
const WARNING_INTERVAL: Duration = Duration::from_secs(10);

/// Largest read buffer of a connection, unless headers may be larger. Applies before any token is checked; hyper's
/// default is 400 KiB.
const BUFFER_BYTES_MAX: usize = 64 * 1024;

/// How long a connection may still send a request after a stop: for requests in flight, and for connections that were
/// just opened. Idle connections are closed after this time.
const LINGER: Duration = Duration::from_millis(300);

/// How long threads may take to drop the connections that are cut.
const CUT_MAX: Duration = Duration::from_millis(500);

/// Counts connections that were answered 503 because there were too many.
static REFUSED: LazyLock<IntCounterVec> = LazyLock::new(|| {
    counters(
        "tidegate_http_connections_refused_total",
        "Number of connections beyond the limit, which were answered 503, by listener.",
        &["listener"],
    )
});

/// The client that sent a request.
#[derive(Debug, Clone)]
pub struct Peer {
    /// The other end of its connection.
    pub address: SocketAddr,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[must_use]
pub enum DrainResult {
    /// Every connection ended before the deadline.
    Complete,
    /// The deadline passed. This many connections were cut.
    ConnectionsCut(usize),
}

/// A bound address that serves HTTP.
#[derive(Debug)]
pub struct Listener {
    name: &'static str,
    address: SocketAddr,
    socket: TcpListener,
    limits: ListenLimits,
    header_budget: ByteBudget,
    waiting: Option<WaitingConnections>,
    runtimes: ServingRuntimes,
}

impl Listener {
    /// Binds the address of the settings key `key`; port 0 picks a free port. `name` is the listener's label in logs
    /// and metrics.
    ///
    /// # Errors
    /// The address is not local, is in use, or needs a privilege.
    pub async fn bind(
        name: &'static str,
        key: &'static str,
        address: SocketAddr,
        mut limits: ListenLimits,
    ) -> Result<Self, BindError> {
        let most = Semaphore::MAX_PERMITS.min(u32::MAX as usize);
        limits.connections_max = limits.connections_max.clamp(1, most);
        let bound = TcpListener::bind(address).await;
        let bound = bound.and_then(|socket| Ok((socket.local_addr()?, socket)));
        let (address, socket) = bound.map_err(|source| BindError {
            key,
            address,
            source,
        })?;
        Ok(Self {
            name,
            address,
            socket,
            limits,
            header_budget: ByteBudget::new(usize::MAX),
            waiting: None,
            runtimes: ServingRuntimes::default(),
        })
    }

    /// Serves the connections on these threads. By default all are served on the thread that accepts them.
    #[must_use]
    pub fn on_threads(mut self, threads: &ServingThreads) -> Self {
        self.runtimes = threads.runtimes();
        self
    }

    /// Bounds the memory of request headers over all connections; the first 8 KiB of each do not count. A connection
    /// whose header exceeds the budget is closed.
    #[must_use]
    pub fn with_header_budget(mut self, budget: ByteBudget) -> Self {
        self.header_budget = budget;
        self
    }

    /// Makes a connection beyond `connections_max` replace the connection that has waited longest for a request, if any
    /// waits. For a port that must stay reachable whatever other clients do.
    #[must_use]
    pub fn replacing_longest_waiting(mut self) -> Self {
        self.waiting = Some(WaitingConnections::default());
        self
    }

    /// Returns the bound address, with the port that the system chose if 0 was requested.
    #[must_use]
    pub const fn address(&self) -> SocketAddr {
        self.address
    }

    /// Serves until `stop` is cancelled. Then it accepts the connections that are in the accept queue, answers requests
    /// that arrived before or arrive within 300 ms (at most half of `drain_timeout`), waits for requests in progress
    /// for at most `drain_timeout`, and cuts the rest. `answer` handles each request.
    ///
    /// When a client closes its connection, or only its sending half, the future of its request is dropped, provided
    /// that the request body was read completely and nothing followed it. Otherwise only a broken connection drops the
    /// future.
    pub async fn serve<A, F>(
        self,
        answer: A,
        stop: CancellationToken,
        drain_timeout: Duration,
    ) -> DrainResult
    where
        A: Fn(Request<Incoming>, Peer) -> F + Clone + Send + 'static,
        F: Future<Output = Response<Body>> + Send + 'static,
    {
        let server = AcceptLoop {
            name: self.name,
            answer,
            permits: ConnectionPermits::new(self.limits.connections_max, self.waiting),
            runtimes: self.runtimes,
            limits: Arc::new(self.limits),
            header_budget: self.header_budget,
            stop: stop.clone(),
            linger: LINGER.min(drain_timeout / 2),
            cut: CancellationToken::new(),
        };
        stop.run_until_cancelled(server.accept(&self.socket)).await;
        server.accept_backlog(self.socket);
        tracing::debug!(
            listener = server.name,
            connections = server.permits.in_use(),
            "draining"
        );
        server.drain(drain_timeout).await
    }
}

#[derive(Clone)]
struct AcceptLoop<A> {
    name: &'static str,
    answer: A,
    limits: Arc<ListenLimits>,
    header_budget: ByteBudget,
    permits: ConnectionPermits,
    runtimes: ServingRuntimes,
    /// Cancelled to end each connection with its request in progress.
    stop: CancellationToken,
    /// How long a connection may still send a request after that.
    linger: Duration,
    /// Cuts the connections that did not end in time.
    cut: CancellationToken,
}

impl<A, F> AcceptLoop<A>
where
    A: Fn(Request<Incoming>, Peer) -> F + Clone + Send + 'static,
    F: Future<Output = Response<Body>> + Send + 'static,
{
    /// Accepts connections; never returns.
    async fn accept(&self, socket: &TcpListener) {
        let crowded = LogLimit::every(WARNING_INTERVAL);
        let failing = LogLimit::every(WARNING_INTERVAL);
        // Never `None`: the semaphores are never closed.
        while let Some(place) = self.permits.next().await {
            match socket.accept().await {
                Ok((stream, peer)) if set_options(&stream).is_ok() => {
                    match self.permits.upgrade(place).await {
                        AdmissionDecision::Served(permit) => {
                            if let Err(error) = self.spawn(stream, peer, permit) {
                                self.cannot_accept(&failing, &error).await;
                            }
                        }
                        AdmissionDecision::Rejected(permit) => {
                            REFUSED.with_label_values(&[self.name]).inc();
                            if crowded.is_due() {
                                let connections_max = self.limits.connections_max;
                                tracing::warn!(
                                    listener = self.name,
                                    connections_max,
                                    "too many connections: answering further ones with 503"
                                );
                            }
                            tokio::spawn(async move {
                                respond_overloaded(stream).await;
                                drop(permit);
                            });
                        }
                    }
                }
                // The client has left already.
                Ok(_) => {}
                Err(error) if is_client_error(&error) => {}
                Err(error) => self.cannot_accept(&failing, &error).await,
            }
        }
    }

    /// Logs that a connection could not be accepted for a local reason, and waits.
    async fn cannot_accept(&self, failing: &LogLimit, error: &io::Error) {
        if failing.is_due() {
            tracing::warn!(listener = self.name, %error, retry_after = ?ACCEPT_PAUSE, "cannot accept connections");
        }
        sleep(ACCEPT_PAUSE).await;
    }

    /// Accepts the connections that clients opened before the stop.
    fn accept_backlog(&self, socket: TcpListener) {
        // If this fails, the connections in the queue are reset.
        for (stream, peer) in backlog(socket).into_iter().flatten() {
            match self.permits.try_serve() {
                // If this fails, the connection is closed.
                Some(permit) => drop(self.spawn(stream, peer, permit)),
                None => return,
            }
        }
    }

    fn spawn(
        &self,
        stream: TcpStream,
        peer: SocketAddr,
        permit: OwnedSemaphorePermit,
    ) -> io::Result<()> {
        let server = self.clone();
        self.runtimes.spawn(stream, move |stream, served| {
            let connection = server.serve_connection(stream, peer);
            async move {
                connection.await;
                drop((permit, served));
            }
        })
    }

    /// Serves one connection to its end. Large parts are boxed one by one: a future that is passed by value is stored
    /// twice, for each of tens of thousands of connections.
    fn serve_connection(
        self,
        stream: TcpStream,
        address: SocketAddr,
    ) -> impl Future<Output = ()> + use<A, F> {
        let (name, limits, linger) = (self.name, self.limits, self.linger);
        let waiting = self.permits.waiting().cloned();
        let cut = match waiting {
            Some(_) => self.cut.child_token(),
            None => self.cut,
        };
        let shared = ListenerState {
            header_budget: self.header_budget,
            waiting: waiting.map(|waiting| (waiting, cut.clone())),
        };
        let (stream, timer, broken) = wrap_connection(stream, &limits, shared);
        let wait = Arc::clone(&timer.0);
        let service = service_fn(move |request| {
            let is_pipelined = wait.request_began();
            let answering = (self.answer)(request, Peer { address });
            async move {
                if is_pipelined {
                    // The runtime looks at the sockets of others first (docs/decisions/0071-cpu-of-the-api.md).
                    yield_now().await;
                }
                Ok::<_, Infallible>(answering.await)
            }
        });
        let connection = http1::Builder::new()
            .timer(timer)
            .header_read_timeout(limits.idle_timeout)
            .max_header_size(limits.header_bytes_max)
            .max_buf_size(limits.header_bytes_max.max(BUFFER_BYTES_MAX))
            .title_case_headers(true)
            .serve_connection(TokioIo::new(stream), service);
        let mut connection = Box::pin(connection);
        let mut stopping = PollOnWake::new(self.stop.cancelled_owned());
        let cut_off = PollOnWake::new(async move {
            tokio::select! {
                () = cut.cancelled() => "cut",
                () = broken => "broke",
            }
        });
        let to_its_end = async move {
            tokio::select! {
                biased;
                () = &mut stopping => {}
                ended = connection.as_mut() => return ended,
            }
            let lingering = Box::pin(sleep(linger));
            tokio::select! {
                biased;
                ended = connection.as_mut() => return ended,
                () = lingering => connection.as_mut().graceful_shutdown(),
            }
            connection.await
        };
        async move {
            let _open = ConnectionGauge::new(name);
            tokio::select! {
                biased;
                why = cut_off => tracing::trace!(listener = name, "connection {why}"),
                ended = to_its_end => if let Err(error) = ended {
                    tracing::trace!(listener = name, %error, "connection ended early");
                },
            }
        }
    }

    async fn drain(self, drain_timeout: Duration) -> DrainResult {
        if timeout(drain_timeout, self.permits.wait_until_idle())
            .await
            .is_ok()
        {
            return DrainResult::Complete;
        }
        let left = self.permits.in_use();
        self.cut.cancel();
        // The threads drop them, and the resources of their requests.
        let _ = timeout(CUT_MAX, self.permits.wait_until_idle()).await;
        DrainResult::ConnectionsCut(left)
    }
}

/// Counts an open connection in the metrics until it is dropped.
struct ConnectionGauge(IntGauge);

impl ConnectionGauge {
    fn new(listener: &'static str) -> Self {
        let gauge = CONNECTIONS.with_label_values(&[listener]);
        gauge.inc();
        Self(gauge)
    }
}

impl Drop for ConnectionGauge {
    fn drop(&mut self) {
        self.0.dec();
    }
}
