//! Two timeouts where hyper has one.
//!
//! hyper starts one timer when it begins to wait for a request and stops it when the request's header
//! is complete. The same time limit would have to serve for two different things: an idle connection
//! between two requests, which ordinary clients keep for a minute and more, and a header that comes
//! byte by byte to hold the connection, which should be cut after seconds. hyper does not tell them
//! apart, but the timer is ours to supply: this one is told by the socket whether bytes have arrived
//! since the wait began. Before the first byte it is the idle timer, from then on the header timer.
//!
//! hyper polls the timer after each read that did not complete a header, so the switch happens with
//! the first byte. One case stays with the idle timer: the beginning of a header that arrived in one
//! piece with the end of the request before it, and nothing after that. It is bounded all the same.

use std::io::{self, IoSlice};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use hyper::rt::{Sleep, Timer};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;

/// Whether bytes have arrived since the running wait for a request began.
type Touched = Arc<AtomicBool>;

/// A socket and a timer that belong together: one connection has one of each.
pub(crate) fn pair(
    stream: TcpStream,
    header_timeout: Duration,
    idle_timeout: Duration,
) -> (TouchyStream, HeadTimer) {
    let touched = Touched::default();
    let timer = HeadTimer {
        touched: Arc::clone(&touched),
        header_timeout,
        idle_timeout,
    };
    (TouchyStream { stream, touched }, timer)
}

/// A socket that notes that something was read.
#[derive(Debug)]
pub(crate) struct TouchyStream {
    stream: TcpStream,
    touched: Touched,
}

impl AsyncRead for TouchyStream {
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

impl AsyncWrite for TouchyStream {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(context, bytes)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write_vectored(context, slices)
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
