//! HTTP/1.1 for strangers: every wait, every buffer and the number of connections is bounded.

use std::convert::Infallible;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use axum::http::{Request, Response};
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::{Instant, sleep, timeout};
use tokio_util::sync::CancellationToken;

use crate::ListenLimits;
use crate::aside::Aside;
use crate::budget::ByteBudget;
use crate::hang_up::HangUp;
use crate::head_timer::Shared;
use crate::metrics::CONNECTIONS;
use crate::places::{Place, Places};
use crate::refusal::refuse;
use crate::socket::{Backlog, is_of_the_client, tune};
use crate::waiting::WaitingConnections;
use crate::watched_stream::of_connection;

/// After an accept that failed because of us (no file descriptor left): connections that end meanwhile
/// make room.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// What goes wrong with many connections is told no more often than this.
const COMPLAINT_INTERVAL: Duration = Duration::from_secs(10);

/// The buffer for a client that sends fast, with a token or without, unless headers may be longer. hyper's own is 400 KiB.
const BUFFER_BYTES_MAX: usize = 64 * 1024;

/// How long a connection may still send a request after a stop. It is for requests in flight, and for connections
/// that were opened to send one; others are closed that much later.
const LINGER: Duration = Duration::from_millis(300);

/// Connections that were answered 503 because there were too many.
const REFUSED: &str = "tidegate_http_connections_refused_total";

/// The client that sent a request.
#[derive(Debug, Clone)]
pub struct Peer {
    /// The other end of its connection.
    pub address: SocketAddr,
    /// What happens to the request when the client sends no more.
    pub hang_up: HangUp,
}

/// How a listener ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[must_use]
pub enum Drained {
    /// Every connection had its answer.
    Completely,
    /// The deadline passed; this many connections were cut.
    Cut(usize),
}

/// A bound address that serves HTTP.
#[derive(Debug)]
pub struct Listener {
    name: &'static str,
    socket: TcpListener,
    limits: ListenLimits,
    header_budget: ByteBudget,
    waiting: Option<WaitingConnections>,
}

impl Listener {
    /// Binds an address; port 0 picks a free port. `name` is the listener's label in logs and metrics.
    ///
    /// # Errors
    /// The address is not ours, in use or forbidden.
    pub async fn bind(
        name: &'static str,
        address: SocketAddr,
        mut limits: ListenLimits,
    ) -> io::Result<Self> {
        let most = Semaphore::MAX_PERMITS.min(u32::MAX as usize);
        limits.connections_max = limits.connections_max.clamp(1, most);
        let socket = TcpListener::bind(address).await?;
        Ok(Self {
            name,
            socket,
            limits,
            header_budget: ByteBudget::new(usize::MAX),
            waiting: None,
        })
    }

    /// Bounds what is kept of headers until their requests are answered, over all connections and beyond 8 KiB of each. A
    /// connection for which there is nothing left is closed.
    #[must_use]
    pub fn with_header_budget(mut self, budget: ByteBudget) -> Self {
        self.header_budget = budget;
        self
    }

    /// A connection beyond `connections_max` takes the place of the one that has waited longest for a request,
    /// if one waits. For a port that must answer a few callers whatever other clients do.
    #[must_use]
    pub fn displacing_waiting(mut self) -> Self {
        self.waiting = Some(WaitingConnections::default());
        self
    }

    /// The address that was bound, with the real port.
    ///
    /// # Errors
    /// The system cannot tell.
    pub fn local_addr(&self) -> io::Result<SocketAddr> {
        self.socket.local_addr()
    }

    /// Serves until told to stop; then accepts what has connected before, answers what has been sent and what is sent
    /// within [`LINGER`], lets requests finish for at most `drain_timeout`, and cuts what is left. `answer` is given each request and the client that sent it.
    ///
    /// A client that hangs up ends the future that works on its request, provided that the request's
    /// body was read to its end and that nothing came behind it; else only one whose connection breaks. One that
    /// closes its sending half right behind its request is answered: see [`HangUp`].
    pub async fn serve<A, F>(
        self,
        answer: A,
        stop: CancellationToken,
        drain_timeout: Duration,
    ) -> Drained
    where
        A: Fn(Request<Incoming>, Peer) -> F + Clone + Send + 'static,
        F: Future<Output = Response<Body>> + Send + 'static,
    {
        let server = Server {
            name: self.name,
            answer,
            places: Places::new(self.limits.connections_max, self.waiting),
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
            connections = server.places.taken(),
            "draining"
        );
        server.drain(drain_timeout).await
    }
}

#[derive(Clone)]
struct Server<A> {
    name: &'static str,
    answer: A,
    limits: Arc<ListenLimits>,
    header_budget: ByteBudget,
    places: Places,
    /// Has connections end with the request that they work on.
    stop: CancellationToken,
    /// How long they may send one after that.
    linger: Duration,
    /// Ends the connections that did not end by themselves.
    cut: CancellationToken,
}

impl<A, F> Server<A>
where
    A: Fn(Request<Incoming>, Peer) -> F + Clone + Send + 'static,
    F: Future<Output = Response<Body>> + Send + 'static,
{
    /// Accepts for ever.
    async fn accept(&self, socket: &TcpListener) {
        let mut crowded = Complaint::default();
        let mut failing = Complaint::default();
        // The semaphores are never closed, so there is always a place in the end.
        while let Some(place) = self.places.next().await {
            match socket.accept().await {
                Ok((stream, peer)) if tune(&stream).is_ok() => {
                    match self.places.or_better(place).await {
                        Place::Served(permit) => self.spawn(stream, peer, permit),
                        Place::Refused(permit) => {
                            metrics::counter!(REFUSED, "listener" => self.name).increment(1);
                            if crowded.is_due() {
                                let connections_max = self.limits.connections_max;
                                tracing::warn!(
                                    listener = self.name,
                                    connections_max,
                                    "too many connections: further ones are answered 503"
                                );
                            }
                            tokio::spawn(async move {
                                refuse(stream).await;
                                drop(permit);
                            });
                        }
                    }
                }
                // The client has gone already.
                Ok(_) => {}
                Err(error) if is_of_the_client(&error) => {}
                Err(error) => {
                    if failing.is_due() {
                        tracing::warn!(listener = self.name, %error, "cannot accept connections");
                    }
                    sleep(ACCEPT_PAUSE).await;
                }
            }
        }
    }

    /// Takes the connections that clients have opened before the stop.
    fn accept_backlog(&self, socket: TcpListener) {
        // If that fails they are reset, as if they had come later.
        for (stream, peer) in Backlog::of(socket).into_iter().flatten() {
            match self.places.try_serve() {
                Some(permit) => self.spawn(stream, peer, permit),
                None => return,
            }
        }
    }

    fn spawn(&self, stream: TcpStream, peer: SocketAddr, permit: OwnedSemaphorePermit) {
        let connection = self.clone().connection(stream, peer);
        tokio::spawn(async move {
            connection.await;
            drop(permit);
        });
    }

    /// Serves one connection to its end. The parts that are large are boxed one by one: a future that
    /// is passed on by value would take its place twice, in each of ten thousands of connections.
    fn connection(
        self,
        stream: TcpStream,
        address: SocketAddr,
    ) -> impl Future<Output = ()> + use<A, F> {
        let Self {
            name,
            answer,
            limits,
            header_budget,
            places,
            stop,
            linger,
            cut,
            ..
        } = self;
        let waiting = places.waiting().cloned();
        let cut = match waiting {
            Some(_) => cut.child_token(),
            None => cut,
        };
        let shared = Shared {
            header_budget,
            waiting: waiting.map(|waiting| (waiting, cut.clone())),
        };
        let hang_up = HangUp::default();
        let (stream, timer, broken) = of_connection(stream, &limits, shared, hang_up.clone());
        let service = service_fn(move |request| {
            hang_up.request_began();
            let hang_up = hang_up.clone();
            let answering = answer(request, Peer { address, hang_up });
            async move { Ok::<_, Infallible>(answering.await) }
        });
        let connection = http1::Builder::new()
            .timer(timer)
            .header_read_timeout(limits.idle_timeout)
            .max_header_size(limits.header_bytes_max)
            .max_buf_size(limits.header_bytes_max.max(BUFFER_BYTES_MAX))
            .title_case_headers(true)
            .serve_connection(TokioIo::new(stream), service);
        let mut connection = Box::pin(connection);
        let mut stopping = Aside::new(stop.cancelled_owned());
        let cut_off = Aside::new(async move {
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
            let _open = Open::new(name);
            tokio::select! {
                biased;
                why = cut_off => tracing::trace!(listener = name, "connection {why}"),
                ended = to_its_end => if let Err(error) = ended {
                    tracing::trace!(listener = name, %error, "connection ended early");
                },
            }
        }
    }

    async fn drain(self, drain_timeout: Duration) -> Drained {
        if timeout(drain_timeout, self.places.all_left()).await.is_ok() {
            return Drained::Completely;
        }
        let left = self.places.taken();
        self.cut.cancel();
        Drained::Cut(left)
    }
}

/// Something that is told, but seldom.
#[derive(Default)]
struct Complaint(Option<Instant>);

impl Complaint {
    fn is_due(&mut self) -> bool {
        let is_fresh = |told: Instant| told.elapsed() < COMPLAINT_INTERVAL;
        if self.0.is_some_and(is_fresh) {
            return false;
        }
        self.0 = Some(Instant::now());
        true
    }
}

/// Counts the connection in the metrics while it lives.
struct Open(metrics::Gauge);

impl Open {
    fn new(listener: &'static str) -> Self {
        let gauge = metrics::gauge!(CONNECTIONS, "listener" => listener);
        gauge.increment(1.0);
        Self(gauge)
    }
}

impl Drop for Open {
    fn drop(&mut self) {
        self.0.decrement(1.0);
    }
}
