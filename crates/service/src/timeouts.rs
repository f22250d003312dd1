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
//!
//! **Break.** hyper notices the end of a connection when it reads, and it does not read while the next
//! request is in its hands already. A client that sends something behind a long poll and vanishes would
//! keep its place to the end of the wait, which may be years. So somebody else looks out for the error
//! that the kernel raises: at a reset, or when the client is asked for in vain.

use std::io::{self, IoSlice};
use std::net::Shutdown;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, ready};
use std::time::{Duration, Instant};

use hyper::rt::{Sleep, Timer};
use socket2::SockRef;
use tokio::io::{AsyncRead, AsyncWrite, Interest, ReadBuf};
use tokio::net::TcpStream;

use crate::ListenLimits;

/// Whether bytes have arrived since the running wait for a request began.
type Touched = Arc<AtomicBool>;

/// A socket and a timer that belong together: one connection has one of each.
pub(crate) fn pair(stream: Arc<TcpStream>, limits: &ListenLimits) -> (WatchedStream, HeadTimer) {
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

/// Ends when the connection is broken; an orderly end of what the client sends is none.
pub(crate) async fn broken(stream: Arc<TcpStream>) {
    // That the system cannot tell is as good as an error.
    let _ = stream.ready(Interest::ERROR).await;
}

/// A socket that notes reads and gives up on writes.
#[derive(Debug)]
pub(crate) struct WatchedStream {
    stream: Arc<TcpStream>,
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
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        loop {
            ready!(self.stream.poll_read_ready(context))?;
            match self.stream.try_read_buf(buffer) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                Err(error) => return Poll::Ready(Err(error)),
                Ok(0) => return Poll::Ready(Ok(())),
                Ok(_) => {
                    // One connection is driven by one task: no ordering between threads is needed.
                    self.touched.store(true, Ordering::Relaxed);
                    return Poll::Ready(Ok(()));
                }
            }
        }
    }
}

impl AsyncWrite for WatchedStream {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let polled = when_writable(&self.stream, context, |stream| stream.try_write(bytes));
        self.written(polled, context)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let write = |stream: &TcpStream| stream.try_write_vectored(slices);
        let polled = when_writable(&self.stream, context, write);
        self.written(polled, context)
    }

    fn is_write_vectored(&self) -> bool {
        true
    }

    fn poll_flush(self: Pin<&mut Self>, _context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(SockRef::from(&*self.stream).shutdown(Shutdown::Write))
    }
}

fn when_writable<T>(
    stream: &TcpStream,
    context: &mut Context<'_>,
    write: impl Fn(&TcpStream) -> io::Result<T>,
) -> Poll<io::Result<T>> {
    loop {
        ready!(stream.poll_write_ready(context))?;
        match write(stream) {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            written => return Poll::Ready(written),
        }
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
