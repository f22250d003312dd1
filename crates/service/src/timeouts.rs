//! The time limits of a connection that hyper does not have.
//!
//! **Idle and header.** hyper starts one timer when it begins to wait for a request and stops it when
//! the request's header is complete. The same limit would have to serve for two different things: an
//! idle connection between two requests, which ordinary clients keep for a minute and more, and a header
//! that comes byte by byte to hold the connection, which should be cut after seconds. hyper does not
//! tell them apart, but the timer is ours to supply: this one is told by the socket whether bytes have
//! arrived since the wait began. Before the first byte it is the idle timer, from then on the header
//! timer. hyper polls it after each read that did not complete a header, so the switch happens with the
//! first byte. One case stays with the idle timer: the beginning of a header that arrived in one piece
//! with the end of the request before it, and nothing after that. It is bounded all the same.
//!
//! **Write.** A client that does not read its answer would keep the answer in memory for ever. A write
//! that makes no progress for too long fails, and the connection ends.

use std::io::{self, IoSlice};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use hyper::rt::{Sleep, Timer};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;

use crate::ListenLimits;

/// Whether bytes have arrived since the running wait for a request began.
type Touched = Arc<AtomicBool>;

/// A socket and a timer that belong together: one connection has one of each.
pub(crate) fn pair(stream: TcpStream, limits: &ListenLimits) -> (WatchedStream, HeadTimer) {
    let touched = Touched::default();
    let timer = HeadTimer {
        touched: Arc::clone(&touched),
        header_timeout: limits.header_timeout,
        idle_timeout: limits.idle_timeout,
    };
    let stream = WatchedStream {
        stream,
        touched,
        write_timeout: limits.write_timeout,
        stalled: None,
    };
    (stream, timer)
}

/// A socket that notes reads and gives up on writes.
#[derive(Debug)]
pub(crate) struct WatchedStream {
    stream: TcpStream,
    touched: Touched,
    write_timeout: Duration,
    /// Runs while the client takes nothing of what is to be written.
    stalled: Option<Pin<Box<tokio::time::Sleep>>>,
}

impl WatchedStream {
    /// Passes on what a write led to, unless it has led to nothing for too long.
    fn written<T>(
        &mut self,
        polled: Poll<io::Result<T>>,
        context: &mut Context<'_>,
    ) -> Poll<io::Result<T>> {
        if polled.is_ready() {
            self.stalled = None;
            return polled;
        }
        let write_timeout = self.write_timeout;
        let stalled = self
            .stalled
            .get_or_insert_with(|| Box::pin(tokio::time::sleep(write_timeout)));
        stalled
            .as_mut()
            .poll(context)
            .map(|()| Err(io::ErrorKind::TimedOut.into()))
    }
}

impl AsyncRead for WatchedStream {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        let polled = Pin::new(&mut self.stream).poll_read(context, buffer);
        if buffer.filled().len() > before {
            // One connection is driven by one task: no ordering between threads is needed.
            self.touched.store(true, Ordering::Relaxed);
        }
        polled
    }
}

impl AsyncWrite for WatchedStream {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let polled = Pin::new(&mut self.stream).poll_write(context, bytes);
        self.written(polled, context)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let polled = Pin::new(&mut self.stream).poll_write_vectored(context, slices);
        self.written(polled, context)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}

/// The timer of one connection. The deadlines that hyper asks for are not used: there are two.
pub(crate) struct HeadTimer {
    touched: Touched,
    header_timeout: Duration,
    idle_timeout: Duration,
}

impl Timer for HeadTimer {
    fn sleep(&self, _duration: Duration) -> Pin<Box<dyn Sleep>> {
        self.touched.store(false, Ordering::Relaxed);
        Box::pin(HeadSleep {
            touched: Arc::clone(&self.touched),
            header_timeout: self.header_timeout,
            in_header: false,
            sleep: Box::pin(tokio::time::sleep(self.idle_timeout)),
        })
    }

    fn sleep_until(&self, _deadline: Instant) -> Pin<Box<dyn Sleep>> {
        self.sleep(self.idle_timeout)
    }
}

struct HeadSleep {
    touched: Touched,
    header_timeout: Duration,
    in_header: bool,
    sleep: Pin<Box<tokio::time::Sleep>>,
}

impl Sleep for HeadSleep {}

impl Future for HeadSleep {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        if !self.in_header && self.touched.load(Ordering::Relaxed) {
            self.in_header = true;
            let deadline = tokio::time::Instant::now() + self.header_timeout;
            self.sleep.as_mut().reset(deadline);
        }
        self.sleep.as_mut().poll(context)
    }
}
