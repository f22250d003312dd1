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
use hyper_util::rt::TokioIo;
use hyper_util::server::graceful::{GracefulShutdown, Watcher};
use hyper_util::service::TowerToHyperService;
use serde::Deserialize;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio::time::{sleep, timeout};
use tokio_util::sync::CancellationToken;
use tower::Service;

use crate::timeouts;

/// After an accept that failed because of us (no file descriptor left): connections that end meanwhile
/// make room.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// hyper wants a request's header to fit into a buffer of at least this size.
const BUFFER_BYTES_MIN: usize = 8192;

/// What a listener puts up with.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ListenLimits {
    /// Connections at a time; further ones wait in the system's queue until one ends.
    pub connections_max: usize,
    /// From the first byte of a request's header to its last.
    #[serde(with = "humantime_serde")]
    pub header_timeout: Duration,
    /// From the opening of a connection, or the end of a request, to the next byte.
    #[serde(with = "humantime_serde")]
    pub idle_timeout: Duration,
    /// For a client to take at least something of its answer.
    #[serde(with = "humantime_serde")]
    pub write_timeout: Duration,
    /// The longest header, request line included, in bytes.
    pub header_bytes_max: usize,
}

impl Default for ListenLimits {
    /// For an admin port, which a few well-known callers use.
    fn default() -> Self {
        Self {
            connections_max: 256,
            header_timeout: Duration::from_secs(10),
            idle_timeout: Duration::from_secs(75),
            write_timeout: Duration::from_secs(30),
            header_bytes_max: 64 * 1024,
        }
    }
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
        limits.connections_max = limits.connections_max.clamp(1, Semaphore::MAX_PERMITS);
        let socket = TcpListener::bind(address).await?;
        Ok(Self {
            name,
            socket,
            limits,
        })
    }

    /// The address that was bound, with the real port.
    ///
    /// # Errors
    /// The system cannot tell.
    pub fn local_addr(&self) -> io::Result<SocketAddr> {
        self.socket.local_addr()
    }

    /// Serves until told to stop; then accepts no more, lets requests finish for at most
    /// `drain_timeout`, and cuts what is left.
    ///
    /// A client that hangs up ends the future that works on its request, provided that the request's
    /// body was read to its end.
    pub async fn serve<S>(
        self,
        service: S,
        stop: CancellationToken,
        drain_timeout: Duration,
    ) -> Drained
    where
        S: Service<Request<Incoming>, Response = Response<Body>, Error = Infallible>,
        S: Clone + Send + 'static,
        S::Future: Send + 'static,
    {
        let server = Server {
            name: self.name,
            service,
            room: Arc::new(Semaphore::new(self.limits.connections_max)),
            limits: Arc::new(self.limits),
            cut: CancellationToken::new(),
        };
        let graceful = GracefulShutdown::new();
        let accepting = server.accept(&self.socket, &graceful);
        stop.run_until_cancelled(accepting).await;
        drop(self.socket);
        tracing::debug!(
            listener = server.name,
            connections = server.open(),
            "draining"
        );
        server.drain(graceful, drain_timeout).await
    }
}

#[derive(Clone)]
struct Server<S> {
    name: &'static str,
    service: S,
    limits: Arc<ListenLimits>,
    /// A permit a connection.
    room: Arc<Semaphore>,
    /// Ends the connections that did not end by themselves.
    cut: CancellationToken,
}

impl<S> Server<S>
where
    S: Service<Request<Incoming>, Response = Response<Body>, Error = Infallible>,
    S: Clone + Send + 'static,
    S::Future: Send + 'static,
{
    fn open(&self) -> usize {
        self.limits.connections_max - self.room.available_permits()
    }

    /// Accepts for ever.
    async fn accept(&self, socket: &TcpListener, graceful: &GracefulShutdown) {
        loop {
            // The semaphore is never closed, so there is always a permit in the end.
            let Ok(permit) = Arc::clone(&self.room).acquire_owned().await else {
                return;
            };
            match socket.accept().await {
                // Answers are small and complete: waiting for more to send only delays them.
                Ok((stream, _)) if stream.set_nodelay(true).is_ok() => {
                    let connection = self.clone().connection(stream, graceful.watcher());
                    tokio::spawn(async move {
                        connection.await;
                        drop(permit);
                    });
                }
                // The client has gone already.
                Ok(_) => {}
                Err(error) if is_of_the_client(&error) => {}
                Err(error) => {
                    tracing::warn!(listener = self.name, %error, "cannot accept connections");
                    sleep(ACCEPT_PAUSE).await;
                }
            }
        }
    }

    /// Serves one connection to its end. The parts that are large are boxed one by one: a future that
    /// is passed on by value would take its place twice, in each of ten thousands of connections.
    fn connection(self, stream: TcpStream, watcher: Watcher) -> impl Future<Output = ()> + use<S> {
        let limits = &self.limits;
        let (stream, timer) = timeouts::pair(stream, limits);
        let connection = http1::Builder::new()
            .timer(timer)
            .header_read_timeout(limits.idle_timeout)
            .max_header_size(limits.header_bytes_max.max(BUFFER_BYTES_MIN))
            .title_case_headers(true)
            .serve_connection(TokioIo::new(stream), TowerToHyperService::new(self.service));
        let connection = Box::pin(watcher.watch(connection));
        let (name, cut) = (self.name, self.cut);
        async move {
            let _open = Open::new(name);
            if let Some(Err(error)) = cut.run_until_cancelled(connection).await {
                tracing::trace!(listener = name, %error, "connection ended early");
            }
        }
    }

    async fn drain(self, graceful: GracefulShutdown, drain_timeout: Duration) -> Drained {
        if timeout(drain_timeout, graceful.shutdown()).await.is_ok() {
            return Drained::Completely;
        }
        let left = self.open();
        self.cut.cancel();
        Drained::Cut(left)
    }
}

/// Counts the connection in the metrics while it lives.
struct Open(metrics::Gauge);

impl Open {
    fn new(listener: &'static str) -> Self {
        let gauge = metrics::gauge!("tidegate_http_connections", "listener" => listener);
        gauge.increment(1.0);
        Self(gauge)
    }
}

impl Drop for Open {
    fn drop(&mut self) {
        self.0.decrement(1.0);
    }
}

/// The client went away between its connect and our accept: no reason to pause.
fn is_of_the_client(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::ConnectionAborted
            | io::ErrorKind::ConnectionReset
            | io::ErrorKind::Interrupted
    )
}

#[cfg(test)]
mod tests {
    use std::time::Instant;

    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::sync::mpsc;
    use tokio::task::JoinHandle;

    use super::*;

    const HEADER_TIMEOUT: Duration = Duration::from_millis(200);
    const IDLE_TIMEOUT: Duration = Duration::from_secs(1);
    /// More than the system's buffers of a connection hold.
    const LARGE_BYTES: usize = 64 * 1024 * 1024;
    const REQUEST: &[u8] = b"GET /quick HTTP/1.1\r\nhost: x\r\n\r\n";

    struct Running {
        address: SocketAddr,
        stop: CancellationToken,
        served: JoinHandle<Drained>,
        /// Gets a message when work on a request to `/slow` begins, and one when it is dropped.
        slow: mpsc::UnboundedReceiver<&'static str>,
    }

    struct Watched(mpsc::UnboundedSender<&'static str>);

    impl Drop for Watched {
        fn drop(&mut self) {
            let _ = self.0.send("dropped");
        }
    }

    async fn run(connections_max: usize) -> Running {
        let limits = ListenLimits {
            connections_max,
            header_timeout: HEADER_TIMEOUT,
            idle_timeout: IDLE_TIMEOUT,
            write_timeout: HEADER_TIMEOUT,
            header_bytes_max: 8192,
        };
        let any = SocketAddr::from(([127, 0, 0, 1], 0));
        let listener = Listener::bind("test", any, limits).await.unwrap();
        let address = listener.local_addr().unwrap();
        let (sender, slow) = mpsc::unbounded_channel();
        let service = tower::service_fn(move |request: Request<Incoming>| {
            let sender = sender.clone();
            async move {
                if request.uri().path() == "/large" {
                    return Ok(Response::new(Body::from(vec![b'x'; LARGE_BYTES])));
                }
                if request.uri().path() == "/slow" {
                    let _ = sender.send("begun");
                    let _watched = Watched(sender);
                    sleep(Duration::from_secs(60)).await;
                }
                Ok(Response::new(Body::from("done")))
            }
        });
        let stop = CancellationToken::new();
        let served = tokio::spawn(listener.serve(service, stop.clone(), HEADER_TIMEOUT));
        Running {
            address,
            stop,
            served,
            slow,
        }
    }

    async fn answer(client: &mut TcpStream) -> String {
        client.write_all(REQUEST).await.unwrap();
        let mut buffer = [0; 1024];
        let length = client.read(&mut buffer).await.unwrap();
        String::from_utf8_lossy(&buffer[..length]).into_owned()
    }

    #[tokio::test]
    async fn an_idle_connection_outlives_the_header_timeout() {
        let running = run(10).await;
        let mut client = TcpStream::connect(running.address).await.unwrap();
        for _ in 0..2 {
            assert!(answer(&mut client).await.ends_with("done"));
            sleep(HEADER_TIMEOUT * 2).await;
        }
        let idle_since = Instant::now();
        assert_eq!(
            client.read(&mut [0; 16]).await.unwrap(),
            0,
            "closed when idle for long"
        );
        assert!(idle_since.elapsed() < IDLE_TIMEOUT);
    }

    #[tokio::test]
    async fn a_half_sent_header_is_cut_even_if_it_trickles() {
        let running = run(10).await;
        let mut client = TcpStream::connect(running.address).await.unwrap();
        answer(&mut client).await;
        let begun_at = Instant::now();
        let (mut read, mut write) = client.split();
        let trickle = async {
            while write.write_all(b"G").await.is_ok() {
                sleep(HEADER_TIMEOUT / 10).await;
            }
        };
        let mut buffer = [0; 16];
        tokio::select! {
            ended = read.read(&mut buffer) => assert!(matches!(ended, Ok(0) | Err(_))),
            () = trickle => {}
        }
        let lasted = begun_at.elapsed();
        assert!(
            lasted >= HEADER_TIMEOUT && lasted < IDLE_TIMEOUT,
            "{lasted:?}"
        );
    }

    #[tokio::test]
    async fn a_client_that_hangs_up_ends_the_work_on_its_request() {
        let mut running = run(10).await;
        let mut client = TcpStream::connect(running.address).await.unwrap();
        let request = b"GET /slow HTTP/1.1\r\nhost: x\r\n\r\n";
        client.write_all(request).await.unwrap();
        assert_eq!(running.slow.recv().await, Some("begun"));
        drop(client);
        let dropped = timeout(Duration::from_secs(5), running.slow.recv()).await;
        assert_eq!(dropped.unwrap(), Some("dropped"));
    }

    #[tokio::test]
    async fn a_client_that_does_not_read_its_answer_is_cut() {
        let running = run(10).await;
        let mut client = TcpStream::connect(running.address).await.unwrap();
        let request = b"GET /large HTTP/1.1\r\nhost: x\r\n\r\n";
        client.write_all(request).await.unwrap();
        sleep(HEADER_TIMEOUT * 4).await;
        let mut received = Vec::new();
        // Whether it ends with an error or not, it ends early.
        let _ = client.read_to_end(&mut received).await;
        assert!(!received.is_empty() && received.len() < LARGE_BYTES);

        let mut reader = TcpStream::connect(running.address).await.unwrap();
        reader.write_all(request).await.unwrap();
        let mut buffer = vec![0; 1024 * 1024];
        let mut length = 0;
        while length < LARGE_BYTES {
            length += reader.read(&mut buffer).await.unwrap();
            sleep(HEADER_TIMEOUT / 100).await;
        }
    }

    #[tokio::test]
    async fn connections_above_the_limit_wait_for_their_turn() {
        let running = run(1).await;
        let mut first = TcpStream::connect(running.address).await.unwrap();
        assert!(answer(&mut first).await.ends_with("done"));
        let mut second = TcpStream::connect(running.address).await.unwrap();
        let waited = timeout(HEADER_TIMEOUT, answer(&mut second)).await;
        assert!(waited.is_err());
        drop(first);
        // The request of the first try was sent already.
        let mut buffer = [0; 1024];
        assert_ne!(second.read(&mut buffer).await.unwrap(), 0);
    }

    #[tokio::test]
    async fn a_stop_closes_idle_connections_and_cuts_the_rest_at_the_deadline() {
        let mut running = run(10).await;
        let mut idle = TcpStream::connect(running.address).await.unwrap();
        answer(&mut idle).await;
        running.stop.cancel();
        assert_eq!(running.served.await.unwrap(), Drained::Completely);

        running = run(10).await;
        let mut busy = TcpStream::connect(running.address).await.unwrap();
        busy.write_all(b"GET /slow HTTP/1.1\r\n\r\n").await.unwrap();
        assert_eq!(running.slow.recv().await, Some("begun"));
        running.stop.cancel();
        assert_eq!(running.served.await.unwrap(), Drained::Cut(1));
        assert_eq!(running.slow.recv().await, Some("dropped"));
    }
}
