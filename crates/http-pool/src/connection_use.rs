//! How far a connection was used, which hyper does not say when a request fails.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, ready};
use std::time::{Duration, Instant};

use futures_util::future::BoxFuture;
use hyper::Uri;
use hyper::http::Extensions;
use hyper::rt::{Read, ReadBuf, ReadBufCursor, Write};
use hyper_util::client::legacy::connect::{Connected, Connection};
use tokio::time::timeout;
use tower::{BoxError, Service};

/// The longest time for the name, the TCP connection and the handshake of TLS. A connection may be made for a request
/// that has ended meanwhile, so the time limit of the request does not bound it.
const CONNECT_LIMIT: Duration = Duration::from_secs(10);
/// The most bytes of the first read of an answer.
const FIRST_READ_BYTES: usize = 2048;

/// The use of one connection, shared by its stream and the requests on it.
#[derive(Debug, Clone)]
pub(crate) struct ConnectionUse(Arc<UseState>);

#[derive(Debug)]
struct UseState {
    connected_at: Instant,
    /// Whether a request before the last one was answered.
    is_reused: AtomicBool,
    /// Whether a byte was received since the last request began.
    is_answered: AtomicBool,
}

impl ConnectionUse {
    /// The use of a connection that is made now.
    fn new() -> Self {
        Self(Arc::new(UseState {
            connected_at: Instant::now(),
            is_reused: AtomicBool::new(false),
            is_answered: AtomicBool::new(false),
        }))
    }

    /// The use of a connection of the pool.
    pub(crate) fn of(connected: &Connected) -> Option<Self> {
        let mut extras = Extensions::new();
        connected.get_extras(&mut extras);
        extras.remove()
    }

    /// A part of a request is written. The first part behind an answer begins another request.
    fn write(&self) {
        if self.0.is_answered.swap(false, Ordering::Relaxed) {
            self.0.is_reused.store(true, Ordering::Relaxed);
        }
    }

    /// Bytes of an answer are read.
    fn read(&self) {
        self.0.is_answered.store(true, Ordering::Relaxed);
    }

    fn is_answered(&self) -> bool {
        self.0.is_answered.load(Ordering::Relaxed)
    }

    /// Whether it was idle before a request that began at this time, and ended before the first byte of the answer.
    pub(crate) fn ended_unanswered(&self, begun: Instant) -> bool {
        // A connection that was made for another request may be idle before its first request.
        let was_idle = self.0.is_reused.load(Ordering::Relaxed) || self.0.connected_at < begun;
        was_idle && !self.is_answered()
    }
}

/// A connector whose connections record their [`ConnectionUse`], and which limits the time in which another connector
/// connects.
#[derive(Debug, Clone)]
pub struct RecordingConnector<C>(pub(crate) C);

impl<C> Service<Uri> for RecordingConnector<C>
where
    C: Service<Uri>,
    C::Error: Into<BoxError>,
    C::Future: Send + 'static,
{
    type Response = RecordingIo<C::Response>;
    type Error = BoxError;
    type Future = BoxFuture<'static, Result<Self::Response, BoxError>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        self.0.poll_ready(context).map_err(Into::into)
    }

    fn call(&mut self, uri: Uri) -> Self::Future {
        let connecting = timeout(CONNECT_LIMIT, self.0.call(uri));
        Box::pin(async {
            let connected = connecting.await.map_err(|_| {
                let text = format!("no connection within {CONNECT_LIMIT:?}");
                io::Error::new(io::ErrorKind::TimedOut, text)
            })?;
            Ok(RecordingIo {
                inner: connected.map_err(Into::into)?,
                connection_use: ConnectionUse::new(),
            })
        })
    }
}

/// A connection that records its [`ConnectionUse`].
#[derive(Debug)]
pub struct RecordingIo<T> {
    inner: T,
    connection_use: ConnectionUse,
}

impl<T: Read + Unpin> Read for RecordingIo<T> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        mut buffer: ReadBufCursor<'_>,
    ) -> Poll<io::Result<()>> {
        if self.connection_use.is_answered() {
            return Pin::new(&mut self.inner).poll_read(context, buffer);
        }
        // A cursor does not tell whether a read has filled it, so the first bytes of an answer are copied.
        let mut chunk = [0; FIRST_READ_BYTES];
        let room = buffer.remaining().min(FIRST_READ_BYTES);
        let mut first = ReadBuf::new(&mut chunk[..room]);
        ready!(Pin::new(&mut self.inner).poll_read(context, first.unfilled()))?;
        if !first.filled().is_empty() {
            self.connection_use.read();
        }
        buffer.put_slice(first.filled());
        Poll::Ready(Ok(()))
    }
}

impl<T: Write + Unpin> Write for RecordingIo<T> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        self.connection_use.write();
        Pin::new(&mut self.inner).poll_write(context, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_shutdown(context)
    }

    fn is_write_vectored(&self) -> bool {
        self.inner.is_write_vectored()
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        parts: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        self.connection_use.write();
        Pin::new(&mut self.inner).poll_write_vectored(context, parts)
    }
}

impl<T: Connection> Connection for RecordingIo<T> {
    fn connected(&self) -> Connected {
        self.inner.connected().extra(self.connection_use.clone())
    }
}
